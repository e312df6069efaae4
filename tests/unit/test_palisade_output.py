import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palisade_output import JsonEvents, TextEvents, printable


def event(message="batch finished", **fields):
    return logging.makeLogRecord({"msg": message, "name": "stream", "levelname": "INFO", **fields})


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        pytest.param("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07", id="clipboard write"),
        pytest.param("\x1b[2J", "\\x1b[2J", id="clear screen"),
        pytest.param("a\u202eb", "a\\u202eb", id="right-to-left override"),
        pytest.param("a\nb", "a\\x0ab", id="forged second line"),
        pytest.param("\x9b31m", "\\x9b31m", id="C1 control"),
        pytest.param("grün €", "grün €", id="ordinary letters stay"),
    ],
)
def test_hostile_text_cannot_steer_a_terminal(hostile, shown):
    assert printable(hostile) == shown


@given(st.text())
def test_printable_text_never_holds_a_control_character(text):
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in printable(text))


def test_long_text_is_cut():
    assert printable("x" * 600) == "x" * 500 + "…"


def test_text_event_is_one_line_with_its_fields():
    line = TextEvents().format(event(records=5, path="/a b\n"))

    assert line.endswith('INFO stream batch finished records=5 path="/a b\\\\x0a"')


def test_json_event_is_ascii_and_complete():
    document = json.loads(JsonEvents().format(event(path="\x1b€")))

    assert document["event"] == "batch finished"
    assert document["path"] == "\x1b€"
    assert JsonEvents().format(event(path="€")).isascii()
