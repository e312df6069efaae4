"""What leaves the process as text: structured log events and printable strings.

Every field of a log line was written by a stranger. Nothing reaches a terminal or a log file without `printable`.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
# Bidirectional controls and line separators change what a reader sees without being control bytes.
_DECEPTIVE = frozenset(
    [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C, 0x2028, 0x2029, 0xFEFF]
)


def printable(text: object, limit: int = 500) -> str:
    r"""Text that cannot move a cursor, ring a bell, set a title or reorder its neighbours.

    Control characters become `\xhh` or `\uhhhh`; text beyond `limit` characters is cut with an ellipsis.
    """
    raw = str(text)
    kept = raw if len(raw) <= limit else raw[:limit]
    if kept.isprintable() and kept.isascii():
        shown = kept
    else:
        shown = "".join(_printable_character(character) for character in kept)
    return shown if kept is raw else shown + "…"


def _printable_character(character: str) -> str:
    code = ord(character)
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"\\x{code:02x}"
    if code in _DECEPTIVE or 0xD800 <= code < 0xE000:
        return f"\\u{code:04x}"
    return character


def event_fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields given as `extra=` when the event was logged."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}


class TextEvents(logging.Formatter):
    """`12:00:03 INFO stream batch committed batch=7 lines=1200`: for people."""

    def format(self, record: logging.LogRecord) -> str:
        """One event on one line."""
        clock = datetime.fromtimestamp(record.created, tz=UTC).strftime("%H:%M:%S")
        fields = "".join(
            f" {name}={_text_value(value)}" for name, value in event_fields(record).items()
        )
        event = printable(record.getMessage(), limit=2000)
        failure = f" error={_text_value(_failure(record))}" if record.exc_info else ""
        return f"{clock} {record.levelname} {record.name} {event}{fields}{failure}"


class JsonEvents(logging.Formatter):
    """One JSON object for each event: for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """One event as one JSON object; ASCII only, so no terminal can be harmed by it."""
        event: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(
                timespec="milliseconds"
            ),
            "level": record.levelname,
            "stage": record.name,
            "event": record.getMessage(),
            **event_fields(record),
        }
        if record.exc_info:
            event["error"] = _failure(record)
        return json.dumps(event, ensure_ascii=True, default=str)


def _text_value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = printable(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or '"' in text or not text else text


def _failure(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return f"{type(error).__name__}: {error}" if error else ""


def start_logging(level: str, form: str, stream: TextIO | None = None) -> None:
    """Send events of all stages to standard error (or `stream`), as `text` or `json`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonEvents() if form == "json" else TextEvents())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # kazoo and py4j narrate every reconnect; what matters of it is logged by our own code.
    for noisy in ("kazoo", "py4j", "httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
