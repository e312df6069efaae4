from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from alerts.settings import AlertsSettings
from streaming import analyze as analyze_module
from streaming import analyze_task
from streaming.analyze import AnalyzeError, AnalyzeRequest, analyze
from streaming.settings import StreamSettings

RECORD_KEYS = (
    *(
        "line_no",
        "ok",
        "reason",
        "client",
        "user",
        "time",
        "method",
        "path",
        "query",
        "protocol",
        "status",
    ),
    *("bytes", "referer", "agent", "vhost", "duration_us", "detectors", "score"),
)


class HereAndNow:
    """Runs what Spark would run in its workers in this process."""

    defaultParallelism = 1  # noqa: N815

    def __init__(self, items: Sequence[Any] = ()) -> None:
        self.items = items
        self.stopped = False

    def parallelize(self, items: Sequence[Any], _: int) -> HereAndNow:
        return HereAndNow(items)

    def map(self, function: Callable[[Any], Any]) -> HereAndNow:
        return HereAndNow([function(item) for item in self.items])

    def collect(self) -> list[Any]:
        return list(self.items)

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> HereAndNow:
    context = HereAndNow()
    monkeypatch.setattr(analyze_module, "spark_context", lambda *_: context)
    return context


def line(n: int, request: str = "GET /p HTTP/1.1", status: int = 200) -> str:
    time = f"18/Nov/2026:10:{n // 60 % 60:02d}:{n % 60:02d} +0000"
    return f'192.0.2.{n % 5} - - [{time}] "{request}" {status} 10 "-" "curl/8.5.0"'


def run(
    files: Sequence[Path], folder: Path, log_format: str = "auto"
) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    out = io.StringIO()
    request = AnalyzeRequest(
        files=files,
        log_format=log_format,
        formats={"mine": "%h %t %s"},
        summary_path=folder / "summary.json",
        records_path=folder / "records.jsonl",
        stream=StreamSettings(),
        alerts=AlertsSettings(),
    )
    assert analyze(request, Console(file=out, width=150)) == 0
    records = [
        json.loads(text) for text in (folder / "records.jsonl").read_text("utf-8").splitlines()
    ]
    return json.loads((folder / "summary.json").read_text("utf-8")), records, out.getvalue()


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(text + "\n" for text in lines), encoding="utf-8")
    return path


def test_every_line_becomes_a_record_and_counts_in_the_summary(tmp_path: Path) -> None:
    log = write(
        tmp_path / "access.log",
        *(line(n) for n in range(5)),
        line(5, r"\x16\x03", 400),
        "garbage",
        line(6, "GET /?id=1'+union+select+1,2 HTTP/1.1"),
        line(7, "GET /a?b=c HTTP/1.1"),
    )
    summary, records, report = run([log], tmp_path)
    assert [record["line_no"] for record in records] == list(range(1, 10))
    assert tuple(records[0]) == RECORD_KEYS
    assert records[8] == {
        "line_no": 9,
        "ok": True,
        "reason": None,
        "client": "192.0.2.2",
        "user": None,
        "time": "2026-11-18T10:00:07Z",
        "method": "GET",
        "path": "/a",
        "query": "b=c",
        "protocol": "HTTP/1.1",
        "status": 200,
        "bytes": 10,
        "referer": None,
        "agent": "curl/8.5.0",
        "vhost": None,
        "duration_us": None,
        "detectors": [],
        "score": 0,
    }
    assert (records[5]["ok"], records[5]["reason"]) == (True, "binary_request")
    assert (records[6]["ok"], records[6]["reason"], records[6]["time"]) == (
        False,
        "not_an_access_line",
        None,
    )
    assert (records[7]["detectors"], records[7]["score"]) == (["sqli"], 5)
    counts = {
        name: summary[name]
        for name in ("lines", "parsed", "malformed", "quarantined", "requests", "bytes")
    }
    assert counts == {
        "lines": 9,
        "parsed": 8,
        "malformed": 1,
        "quarantined": 1,
        "requests": 8,
        "bytes": 80,
    }
    assert summary["reasons"] == {"binary_request": 1, "not_an_access_line": 1}
    assert summary["format"] == "combined"
    assert summary["status"] == {"200": 7, "400": 1}
    assert summary["status_classes"] == {"2xx": 7, "4xx": 1}
    assert summary["methods"] == {"GET": 7, "other": 1}
    assert (summary["first_time"], summary["last_time"]) == (
        "2026-11-18T10:00:00Z",
        "2026-11-18T10:00:07Z",
    )
    assert (summary["latency_ms"], summary["vhosts"]) == (None, [])
    assert summary["top_urls"][0] == {"key": "/p", "requests": 5, "bytes": 50}
    assert summary["detectors"] == {"sqli": 1}
    (attacker,) = summary["attackers"]
    assert (attacker["client"], attacker["score"], attacker["detectors"]) == (
        "192.0.2.1",
        5.0,
        ["sqli"],
    )
    assert "192.0.2.1" in report


def test_splits_and_blocks_leave_no_line_out_and_keep_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyze_module, "SPLIT_BYTES", 4000)
    monkeypatch.setattr(analyze_task, "BLOCK_BYTES", 1000)
    lines = [line(n, f"GET /{n}{'x' * (n * 37 % 300)} HTTP/1.1") for n in range(30)]
    log = tmp_path / "access.log"
    log.write_text("\n".join(lines), encoding="utf-8")
    packed = tmp_path / "access.log.1.gz"
    packed.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    summary, records, _ = run([log, packed], tmp_path)
    assert summary["lines"] == summary["parsed"] == 60
    for part, path in ((records[:30], log), (records[30:], packed)):
        assert {record["file"] for record in part} == {str(path)}
        assert [record["line_no"] for record in part] == list(range(1, 31))
        assert [record["path"].strip("/x") for record in part] == [str(n) for n in range(30)]


def test_behaviour_over_the_whole_file_makes_an_attacker(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", *(line(5 * n, "POST /login HTTP/1.1", 401) for n in range(12)))
    summary, _, _ = run([log], tmp_path)
    (attacker,) = summary["attackers"]
    assert attacker["detectors"] == ["brute_force"]
    assert summary["detectors"] == {"brute_force": 10}


def test_each_file_may_have_its_own_format_and_an_empty_one_has_none(tmp_path: Path) -> None:
    common = write(tmp_path / "a.log", line(1).rpartition(' "-"')[0])
    vhost = write(tmp_path / "b.log", "www.example:80 " + line(2))
    empty = write(tmp_path / "c.log")
    summary, records, report = run([common, vhost, empty], tmp_path)
    assert summary["format"] == "common, vhost_combined"
    assert [record["vhost"] for record in records] == [None, "www.example"]
    assert summary["vhosts"] == [{"vhost": "www.example", "requests": 1, "bytes": 10, "errors": 0}]
    assert "c.log: no line to recognise a format from" in report


def test_only_an_empty_file_is_a_report_of_nothing(tmp_path: Path) -> None:
    summary, records, _ = run([write(tmp_path / "a.log")], tmp_path)
    assert (summary["lines"], summary["format"], records) == (0, None, [])


def test_named_formats_of_the_configuration_are_known(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", "192.0.2.1 [18/Nov/2026:10:00:00 +0000] 200")
    summary, _, _ = run([log], tmp_path, "mine")
    assert (summary["format"], summary["parsed"]) == ("mine", 1)


def test_nothing_of_a_hostile_line_reaches_the_terminal(tmp_path: Path) -> None:
    request = r"GET /\x1b[31m<script>alert(1) HTTP/1.1"
    agent = "\x1b]0;x\x07[bold]"
    time = "18/Nov/2026:10:00:00 +0000"
    hostile = f'192.0.2.9 - - [{time}] "{request}" 200 1 "-" "{agent}"'
    _, _, report = run([write(tmp_path / "a.log", hostile)], tmp_path)
    assert "\x1b" not in report
    assert "\x07" not in report
    assert "[bold]" in report


def corrupt(path: Path) -> Path:
    packed = gzip.compress("\n".join(line(n) for n in range(2000)).encode())
    path.write_bytes(packed[: len(packed) // 2])
    return path


@pytest.mark.parametrize(
    ("prepare", "log_format", "told"),
    [
        (lambda folder: folder / "none.log", "auto", "there is no such file: check the path"),
        (lambda folder: folder, "auto", "this is a folder: name the log files in it"),
        (lambda folder: write(folder / "a.gz", "plain"), "auto", "named .gz but is no gzip file"),
        (lambda folder: corrupt(folder / "b.gz"), "auto", "damaged or cut off"),
        (lambda folder: corrupt(folder / "b.gz"), "combined", "damaged or cut off"),
        (lambda folder: write(folder / "a.log", "x", "y"), "auto", "None of the known formats"),
        (
            lambda folder: write(folder / "a.log", "x"),
            "combind",
            "'combind' is not known: use one of",
        ),
        (lambda folder: write(folder / "a.log", "x"), "%h %t %Q", "'%Q'"),
        (
            lambda folder: write(folder / "records.jsonl", line(1)),
            "auto",
            "one of the files to analyse",
        ),
    ],
)
def test_what_cannot_be_analysed_is_told_in_one_sentence(
    tmp_path: Path, prepare: Callable[[Path], Path], log_format: str, told: str
) -> None:
    path = prepare(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(AnalyzeError) as refused:
        run([path], tmp_path, log_format)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_spark_is_stopped_and_parts_are_removed_when_a_task_fails(
    tmp_path: Path, without_spark: HereAndNow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyze_task, "MAX_LINE_BYTES", 100)
    monkeypatch.setattr(analyze_task, "BLOCK_BYTES", 50)
    log = write(tmp_path / "a.log", "x" * 500)
    with pytest.raises(AnalyzeError, match="longer than 100 bytes"):
        run([log], tmp_path, "combined")
    assert without_spark.stopped
    assert list(tmp_path.iterdir()) == [log]


def test_results_cannot_go_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", line(1))
    with pytest.raises(AnalyzeError, match="name a file in a folder that exists"):
        run([log], tmp_path / "none")
