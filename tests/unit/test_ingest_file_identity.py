"""Verdicts about files, from plain facts."""

import pytest

from ingest.file_identity import (
    Change,
    FileFacts,
    first_line,
    generation_id,
    is_beyond_head,
    is_compressed,
    is_rotated_name,
    mark,
    unused_generation_id,
    what_happened,
)


def facts(inode: int = 7, size: int = 100, modified_ns: int = 1) -> FileFacts:
    return FileFacts(device=1, inode=inode, size=size, modified_ns=modified_ns)


@pytest.mark.parametrize(
    ("at_path", "verdict"),
    [
        pytest.param(facts(), Change.SAME, id="nothing happened"),
        pytest.param(facts(size=101, modified_ns=2), Change.GROWN, id="lines were added"),
        pytest.param(facts(modified_ns=2), Change.TOUCHED, id="written but not longer"),
        pytest.param(facts(size=99), Change.TRUNCATED, id="shorter than what was read"),
        pytest.param(facts(inode=8), Change.REPLACED, id="another file has the name"),
        pytest.param(facts(inode=8, size=0), Change.REPLACED, id="another file, still empty"),
        pytest.param(None, Change.DELETED, id="no file has the name"),
    ],
)
def test_change_of_a_path(at_path, verdict):
    assert what_happened(facts(), at_path, read_until=100) is verdict


@pytest.mark.parametrize(
    ("head", "line"),
    [
        (b"", None),
        (b"half a li", None),
        (b"one\ntwo\n", b"one\n"),
        (b"\n", b"\n"),
        (b"x" * 1024, b"x" * 1024),
        (b"x" * 1023 + b"\nmore", b"x" * 1023 + b"\n"),
    ],
)
def test_first_line_is_known_once_it_is_complete(head, line):
    assert first_line(head) == line


def test_generation_is_the_same_for_the_same_file():
    assert generation_id("web1", 1, 2, b"a line\n") == generation_id("web1", 1, 2, b"a line")
    assert len(generation_id("web1", 1, 2, b"a line\n")) == 16


@pytest.mark.parametrize(
    "other",
    [("web2", 1, 2, b"x"), ("web1", 9, 2, b"x"), ("web1", 1, 9, b"x"), ("web1", 1, 2, b"y")],
)
def test_generation_differs_by_host_device_inode_and_first_line(other):
    assert generation_id("web1", 1, 2, b"x") != generation_id(*other)


def test_generation_is_numbered_when_the_same_first_line_came_back():
    assert unused_generation_id("a", {}) == "a"
    assert unused_generation_id("a", {"a"}) == "a.1"
    assert unused_generation_id("a", {"a", "a.1"}) == "a.2"


def test_shared_first_line_alone_does_not_identify_content():
    head = mark(b"# header\n", 0)

    assert not is_beyond_head(head, 9)
    assert not is_beyond_head(head, 72)
    assert is_beyond_head(head, 73)


@pytest.mark.parametrize("name", ["access.log.1", "access.log-20260131", "access.log.2026-01-31"])
def test_rotated_names_are_recognised(name):
    assert is_rotated_name(name, "access.log")


@pytest.mark.parametrize("name", ["access.log", "access.log.bak", "access.log.1.gz", "error.log.1"])
def test_other_names_are_not_taken_for_rotated(name):
    assert not is_rotated_name(name, "access.log")


def test_compressed_names_are_recognised():
    assert is_compressed("access.log.2.gz")
    assert not is_compressed("access.log.2")
