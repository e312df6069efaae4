"""`palisade analyze FILE...`: the same parsing and detection as the job's, over log files, without Kafka.

1. Look at every file: readable, plain or gzip, which format.
2. Cut plain files into splits; number their lines if records are wanted.
3. Run the splits as Spark tasks, a wave at a time, and add up what they return.
4. Put the records together in order; write the summary; print the report.
Output files appear whole or not at all; nothing else is left behind.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import polars as pl
from pyspark import SparkContext
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from alerts.settings import AlertsSettings
from streaming.analyze_summary import Findings, print_report, summary_of
from streaming.analyze_task import FileSplit, SplitResult, analyze_split, count_lines
from streaming.errors import StreamError
from streaming.lines.lines_from_bytes import lines_from_bytes
from streaming.lines.log_format import LogFormat, LogFormatError, compile_log_format
from streaming.lines.recognise import recognise_format
from streaming.load.partials import Partials
from streaming.settings import StreamSettings
from streaming.spark_session import spark_context

AUTO = "auto"
SPLIT_BYTES = 32 * 1024 * 1024
SAMPLE_BYTES = 256 * 1024
_GZIP_MAGIC = b"\x1f\x8b"

Returned = TypeVar("Returned")


class AnalyzeError(StreamError):
    """The files cannot be analysed; the text names the file, the cause and the remedy."""


@dataclass(frozen=True, slots=True)
class AnalyzeRequest:
    """What to analyse and where the results go; `formats` are the operator's own named formats."""

    files: Sequence[Path]
    log_format: str
    formats: dict[str, str]
    summary_path: Path | None
    records_path: Path | None
    stream: StreamSettings
    alerts: AlertsSettings


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that can be read, and its format; None when it has no line to recognise one from."""

    path: Path
    size: int
    is_gzip: bool
    log_format: LogFormat | None


def analyze(request: AnalyzeRequest, console: Console) -> int:
    """Analyse the files, write what was asked for, print the report; 0 when all went well."""
    files = [_look_at(path, request) for path in request.files]  # 1
    _require_writable(request)
    findings = Findings(
        files=[str(file.path) for file in files],
        formats=[file.log_format.name for file in files if file.log_format],
        alerts=request.alerts,
        top_entries=request.stream.top_entries,
    )
    with _parts_folder(request.records_path) as parts:
        splits = _splits(files, request, parts)  # 2
        if splits:
            _run(splits, request, findings, console)  # 3
        if request.records_path:
            _join_records(splits, request.records_path, parts)  # 4
    summary = summary_of(findings)
    if request.summary_path:
        _write_whole(request.summary_path, json.dumps(summary, indent=2).encode() + b"\n")
    _note_empty_files(files, console)
    print_report(summary, console)
    return 0


def _look_at(path: Path, request: AnalyzeRequest) -> LogFile:
    sample, is_gzip = _read_sample(path)
    try:
        if request.log_format != AUTO:
            chosen = compile_log_format(request.log_format, request.formats)
        elif sample.strip():
            chosen = recognise_format(lines_from_bytes(sample).to_list())
        else:
            chosen = None
    except LogFormatError as error:
        raise AnalyzeError(
            f"{path}: {error}" if request.log_format == AUTO else str(error)
        ) from error
    return LogFile(path, path.stat().st_size, is_gzip, chosen)


def _read_sample(path: Path) -> tuple[bytes, bool]:
    """The first lines of the file, and whether it is compressed; `AnalyzeError` if it cannot be read."""
    problem = _unreadable(path)
    if problem:
        message = f"{path}: {problem}."
        raise AnalyzeError(message)
    try:
        with path.open("rb") as file:
            is_gzip = file.read(2) == _GZIP_MAGIC
            file.seek(0)
            source = gzip.GzipFile(fileobj=file) if is_gzip else file
            return _complete_lines(source.read(SAMPLE_BYTES)), is_gzip
    except PermissionError as error:
        message = f"{path}: this file may not be read by this user: run as one who may, or copy it."
        raise AnalyzeError(message) from error
    except (OSError, EOFError, zlib.error) as error:
        message = f"{path}: this file is damaged or cut off ({error}): name a complete log file."
        raise AnalyzeError(message) from error


def _unreadable(path: Path) -> str:
    if path.is_dir():
        return "this is a folder: name the log files in it"
    if not path.exists():
        return "there is no such file: check the path"
    if not path.is_file():
        return "this is no regular file: copy its contents into one"
    with path.open("rb") as file:
        claims_gzip = path.suffix == ".gz" and path.stat().st_size > 0
        if claims_gzip and file.read(2) != _GZIP_MAGIC:
            return (
                "it is named .gz but is no gzip file: give it another name, or name a complete one"
            )
    return ""


def _complete_lines(sample: bytes) -> bytes:
    """Without a last line that the end of the sample cut."""
    return (
        sample.rpartition(b"\n")[0] if len(sample) == SAMPLE_BYTES else sample.removesuffix(b"\n")
    )


def _require_writable(request: AnalyzeRequest) -> None:
    for path in (request.summary_path, request.records_path):
        if path is None:
            continue
        if path.is_dir() or not path.parent.is_dir():
            message = f"{path}: cannot be written: name a file in a folder that exists."
            raise AnalyzeError(message)
        if any(path.exists() and path.samefile(file) for file in request.files):
            message = (
                f"{path}: this is one of the files to analyse: name another file for the results."
            )
            raise AnalyzeError(message)


@contextmanager
def _parts_folder(records_path: Path | None) -> Iterator[Path | None]:
    """A folder beside the records for the parts that tasks write; gone at the end, whatever happens."""
    if records_path is None:
        yield None
        return
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{records_path.name}.", dir=records_path.parent))
    except OSError as error:
        message = (
            f"{records_path}: cannot be written ({error.strerror}): name a folder you may write to."
        )
        raise AnalyzeError(message) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _splits(
    files: Sequence[LogFile], request: AnalyzeRequest, parts: Path | None
) -> list[FileSplit]:
    splits: list[FileSplit] = []
    for index, file in enumerate(files):
        if file.log_format is None or file.size == 0:
            continue
        step = file.size if file.is_gzip else SPLIT_BYTES
        for start in range(0, file.size, step):
            part = parts / f"{len(splits):08d}.jsonl" if parts else None
            splits.append(
                FileSplit(
                    path=str(file.path),
                    file_index=index,
                    start=start,
                    end=min(start + step, file.size),
                    size=file.size,
                    is_gzip=file.is_gzip,
                    log_format=file.log_format,
                    top_entries=request.stream.top_entries * 50,
                    records_path=str(part) if part else None,
                    names_file=len(files) > 1,
                )
            )
    return splits


def _run(
    splits: list[FileSplit], request: AnalyzeRequest, findings: Findings, console: Console
) -> None:
    context = spark_context(request.stream, "palisade analyze")
    try:
        if request.records_path:
            splits = _numbered(splits, context)
        with _progress(console) as progress:
            task = progress.add_task("analysing", total=len(splits))
            # A wave at a time: the driver holds the tables of one wave, however large the files are.
            for wave in _waves(splits, 2 * context.defaultParallelism):
                _add(findings, _in_parallel(context, analyze_split, wave))
                progress.advance(task, len(wave))
    finally:
        context.stop()


def _numbered(splits: Sequence[FileSplit], context: SparkContext) -> list[FileSplit]:
    """Splits that know the number of their first line; only files in several splits need counting."""
    numbered: list[FileSplit] = []
    for _, group in groupby(splits, key=attrgetter("file_index")):
        of_file = list(group)
        counts = _in_parallel(context, count_lines, of_file) if len(of_file) > 1 else [0]
        first_line = 1
        for split, count in zip(of_file, counts, strict=True):
            numbered.append(replace(split, first_line=first_line))
            first_line += count
    return numbered


def _in_parallel(
    context: SparkContext, function: Callable[[FileSplit], Returned], splits: Sequence[FileSplit]
) -> list[Returned]:
    return context.parallelize(splits, len(splits)).map(function).collect()


def _waves(splits: Sequence[FileSplit], size: int) -> Iterator[Sequence[FileSplit]]:
    return (splits[start : start + size] for start in range(0, len(splits), size))


def _add(findings: Findings, results: Iterable[SplitResult]) -> None:
    tables: list[Partials] = []
    for result in results:
        if result.failure:
            raise AnalyzeError(result.failure)
        findings.lines += result.lines
        findings.parsed += result.parsed
        findings.malformed += result.malformed
        findings.reasons.update(result.reasons)
        findings.add_times(result.first_time, result.last_time)
        tables.append({name: pl.read_ipc(io.BytesIO(data)) for name, data in result.tables.items()})
    findings.add_tables(tables)


def _join_records(splits: Sequence[FileSplit], records_path: Path, parts: Path | None) -> None:
    """All parts in order as one file that appears whole."""
    whole = (parts or records_path.parent) / "records"
    with whole.open("wb") as joined:
        for split in splits:
            with Path(split.records_path or "").open("rb") as part:
                shutil.copyfileobj(part, joined, 1024 * 1024)
    whole.replace(records_path)


def _write_whole(path: Path, content: bytes) -> None:
    try:
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            file.write(content)
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except OSError as error:
        message = f"{path}: cannot be written ({error.strerror}): name a folder you may write to."
        raise AnalyzeError(message) from error


def _note_empty_files(files: Sequence[LogFile], console: Console) -> None:
    for file in files:
        if file.log_format is None:
            console.print(
                f"{file.path}: no line to recognise a format from; the file is empty.", markup=False
            )


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
