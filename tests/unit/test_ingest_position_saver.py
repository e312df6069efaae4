"""Positions are saved when they changed, not more often, and a full disk does not stop shipping."""

import errno
import logging

import pytest

from ingest.file_identity import mark
from ingest.file_position import FilePosition
from ingest.generation import Generation
from ingest.position_saver import PositionSaver


class FakeFollower:
    def __init__(self) -> None:
        position = FilePosition(0, mark(b"", 0))
        self.generation = Generation("a", "/a.log", 1, 2, mark(b"x\n", 0), position)
        self.generations = [self.generation]
        self.scanned_at = 5.0


class FakeFile:
    def __init__(self) -> None:
        self.saved: list[int] = []
        self.is_full = False

    def save(self, generations, scanned_at) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.saved.append(next(iter(generations)).position.confirmed)


@pytest.fixture
def follower():
    return FakeFollower()


@pytest.fixture
def file():
    return FakeFile()


def test_first_call_saves_at_once(follower, file):
    PositionSaver(file, follower).save_if_due(now=100.0)

    assert file.saved == [0]


def test_changed_positions_are_saved_once_a_second(follower, file):
    saver = PositionSaver(file, follower)
    for tenth in range(20):
        follower.generation.position.confirmed = tenth
        saver.save_if_due(now=100.0 + tenth / 10)

    assert file.saved == [0, 1, 11]


def test_unchanged_positions_are_saved_once_a_minute(follower, file):
    saver = PositionSaver(file, follower)
    for second in range(121):
        saver.save_if_due(now=100.0 + second)

    assert len(file.saved) == 3


def test_full_disk_is_reported_once_and_tried_again(follower, file, caplog):
    saver = PositionSaver(file, follower)
    file.is_full = True
    with caplog.at_level(logging.INFO, logger="ship"):
        for second in range(5):
            saver.save_if_due(now=100.0 + second)
        file.is_full = False
        saver.save_if_due(now=110.0)

    assert file.saved == [0]
    assert [r.message for r in caplog.records] == [
        "positions cannot be saved",
        "positions saved again",
    ]
