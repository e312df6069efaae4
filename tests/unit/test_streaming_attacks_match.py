from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

from streaming.attacks.detector import (
    DETECTOR_FOLDER,
    Detector,
    DetectorError,
    Golden,
    load_detectors,
    read_detector,
)
from streaming.attacks.match import match_lines
from streaming.attacks.normalise import meaning, straightened
from streaming.lines.access_line import parse_lines
from streaming.lines.log_format import compile_log_format

DETECTORS = load_detectors()
LOOKING = [detector for detector in DETECTORS if detector.patterns]
COMBINED = compile_log_format("combined")


def line(golden: Golden) -> str:
    request, referer, agent = (
        text.replace("\\", "\\\\").replace('"', '\\"')
        for text in (f"{golden.method} {golden.target} HTTP/1.1", golden.referer, golden.agent)
    )
    time = "[18/Nov/2026:10:00:00 +0000]"
    return f'203.0.113.9 - - {time} "{request}" {golden.status} 12 "{referer}" "{agent}"'


def matched(lines: list[str]) -> pl.DataFrame:
    series = pl.Series("line", lines, dtype=pl.String)
    return match_lines(parse_lines(series, COMBINED).with_columns(series), DETECTORS)


@cache
def verdicts() -> dict[str, list[str]]:
    """Every golden line and the detectors that fired on it."""
    lines = [line(golden) for detector in LOOKING for golden in (*detector.fires, *detector.quiet)]
    return dict(zip(lines, matched(lines)["detectors"].to_list(), strict=True))


@pytest.mark.parametrize("detector", LOOKING, ids=lambda detector: detector.name)
def test_golden_lines_fire(detector: Detector) -> None:
    assert [g for g in detector.fires if detector.name not in verdicts()[line(g)]] == []


@pytest.mark.parametrize("detector", LOOKING, ids=lambda detector: detector.name)
def test_look_alikes_stay_quiet(detector: Detector) -> None:
    fired = [(golden, verdicts()[line(golden)]) for golden in detector.quiet]
    assert [(g, names) for g, names in fired if detector.name in names] == []
    assert [(g, names) for g, names in fired if names and g.status < 400] == []


@pytest.mark.parametrize("detector", LOOKING, ids=lambda detector: detector.name)
def test_each_detector_has_ten_golden_lines_of_each_kind(detector: Detector) -> None:
    assert len(detector.fires) >= 10
    assert len(detector.quiet) >= 10


def test_points_of_all_detectors_that_fired_add_up() -> None:
    both = Golden(target="/.env?q=<script>alert(1)</script>", agent="sqlmap/1.7")
    frame = matched([line(Golden()), line(both)])
    assert frame["detectors"].to_list() == [[], ["scanner_agent", "sensitive_file", "xss"]]
    assert frame["detector_points"].to_list() == [[], [3, 4, 5]]
    assert frame["score"].to_list() == [0, 12]
    assert frame.schema["score"] == pl.Int32


def test_a_line_without_a_readable_request_is_looked_at_whole() -> None:
    broken = (
        '203.0.113.9 - - [18/Nov/2026:10:00:00 +0000] "<script>alert(1)</script>" 400 12 "-" "-"'
    )
    assert matched([broken])["detectors"].to_list() == [["xss"]]


def test_no_lines_and_no_detectors_are_fine() -> None:
    assert matched([]).is_empty()
    series = pl.Series("line", [line(Golden())])
    assert match_lines(parse_lines(series, COMBINED).with_columns(series), [])[
        "score"
    ].to_list() == [0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A%20b+C", "a b c"),
        ("%2527", "'"),
        ("%u0027%uff07", "''"),
        ("%c0%ae%c0%ae%c0%af", "../"),
        ("%e0%80%af", "/"),
        ("&lt;&#60;&#x3c;", "<<<"),
        ("un/**/ion/*x*/select", "un ion select"),
        ("/*!50000UNION*/", " union "),
        ("a%00b", "ab"),
        ("a%09%0a%0d b", "a b"),
        ("100%", "100%"),
        ("%E4%B8%AD", "%e4%b8%ad"),
    ],
)
def test_spellings_have_one_meaning(text: str, expected: str) -> None:
    assert pl.DataFrame({"text": [text]}).select(meaning(pl.col("text"))).item() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("//a///b", "/a/b"),
        ("/a/./b", "/a/b"),
        ("..%5c..%5cx", "../../x"),
        ("/a/%2e%2e/b", "/a/../b"),
    ],
)
def test_paths_are_straightened(text: str, expected: str) -> None:
    assert (
        pl.DataFrame({"text": [text]}).select(straightened(meaning(pl.col("text")))).item()
        == expected
    )


PUMPS = (
    "a",
    "(",
    "'",
    " ",
    "/",
    "%2e",
    "../",
    "<a ",
    "${",
    "select ",
    "=1 or ",
    "/*",
    "union ",
    "0,",
)


def test_no_pumped_text_stalls_a_pattern() -> None:
    pumped = [line(Golden(target="/?q=" + (pump * 8192)[:8192])) for pump in PUMPS]
    assert matched(pumped).height == len(PUMPS)


GOOD = (DETECTOR_FOLDER / "xss.toml").read_text("utf-8")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "points = 5",
            "points = 21",
            "xss.toml, line 7: points is 21: allowed are whole numbers from 1",
        ),
        (
            'severity = "high"',
            'severity = "bad"',
            "line 6: severity is 'bad': allowed are low, medium",
        ),
        ('name = "xss"', 'name = "sqli"', "named like its file, 'xss'"),
        (
            "points = 5",
            "points = 5\npiont = 1",
            "line 8: piont is not known: allowed are name, title",
        ),
        (
            'fields = ["target", "referer", "agent"]',
            'fields = ["body"]',
            "'body': allowed are target, path",
        ),
        ("regex = '''", "regex = '''(?=x)", "no linear-time pattern"),
        ("points = 5", "points = ", "not valid TOML"),
        ("[golden]", "[gold]", "gold is not known"),
        ('"script", ', '"Script", ', "lower-case"),
    ],
)
def test_a_broken_detector_file_is_refused_with_its_place(old: str, new: str, told: str) -> None:
    assert old in GOOD
    with pytest.raises(DetectorError) as refused:
        read_detector(GOOD.replace(old, new), Path("xss.toml"))
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('count = "login_failures"', 'count = "logins"', "count is 'logins': allowed are requests"),
        ("at_least = 10", "at_least = 0", "at_least is 0"),
        ("at_least = 10", "atleast = 10", "behaviour.atleast is not known"),
    ],
)
def test_a_broken_behaviour_rule_is_refused(old: str, new: str, told: str) -> None:
    text = (DETECTOR_FOLDER / "brute_force.toml").read_text("utf-8").replace(old, new)
    with pytest.raises(DetectorError) as refused:
        read_detector(text, Path("brute_force.toml"))
    assert told in str(refused.value)
