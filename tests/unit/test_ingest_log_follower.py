"""The follower over real files, without Kafka: what it hands out is what was written."""

import logging
import os
from collections import defaultdict
from pathlib import Path

import pytest

from ingest import log_follower
from ingest.cut_records import CutLimits
from ingest.log_follower import FollowRules, LogFollower
from ingest.position_file import StoredPositions
from ingest.settings import ShipSource

LIMITS = CutLimits(lines_per_record=100, record_bytes=4096, line_bytes=4096)


class Shipping:
    """A follower, a hand-cranked clock, and a Kafka that confirms everything at once."""

    def __init__(self, folder: Path, pattern: str = "access.log", **rules) -> None:
        self.folder = folder
        self.sources = [ShipSource(paths=[str(folder / pattern)])]
        self.rules = FollowRules(host="web1", limits=LIMITS, **rules)
        self.now = 1000.0
        self.sent: dict[str, list] = defaultdict(list)
        self.confirms = True
        self.follower = LogFollower(self.sources, self.rules, None)

    def write(self, data: bytes, name: str = "access.log") -> None:
        with (self.folder / name).open("ab") as file:
            file.write(data)

    def step(self, seconds: float = 1.0, passes: int = 3) -> None:
        self.now += seconds
        for _ in range(passes):
            self.follower.look(self.now, self.folder.stat().st_mtime + self.now)
            for records in self.follower.read(self.now):
                for record in records:
                    self._publish(record)

    def _publish(self, record) -> None:
        position = record.generation.position
        position.send(record.cut)
        self.sent[record.generation.id].append(record.cut)
        if self.confirms:
            position.confirm(record.cut.start)

    def restart(self, scanned_at: float = 0.0) -> None:
        stored = StoredPositions(tuple(self.follower.generations), scanned_at)
        self.follower.close()
        self.follower = LogFollower(self.sources, self.rules, stored)

    @property
    def contents(self) -> list[bytes]:
        return [
            b"".join(cut.value + (b"\n" if cut.truncated_end is None else b"") for cut in cuts)
            for cuts in self.sent.values()
        ]

    @property
    def lines(self) -> list[bytes]:
        return [line for content in self.contents for line in content.splitlines()]


@pytest.fixture
def shipping(tmp_path):
    made = Shipping(tmp_path)
    yield made
    made.follower.close()


def lines(first: int, count: int = 10) -> bytes:
    return b"".join(
        b"line %06d of a log with some length\n" % n for n in range(first, first + count)
    )


def test_lines_are_handed_out_as_they_are_written(shipping):
    shipping.write(lines(0))
    shipping.step()
    shipping.write(lines(10))
    shipping.step()

    assert shipping.contents == [lines(0, 20)]


def test_open_line_waits_for_its_newline(shipping):
    shipping.write(b"first\nsec")
    shipping.step(seconds=60)
    assert shipping.contents == [b"first\n"]

    shipping.write(b"ond\n")
    shipping.step()
    assert shipping.contents == [b"first\nsecond\n"]


def test_file_that_appears_later_is_found(shipping):
    shipping.step()
    shipping.write(lines(0))
    shipping.step()

    assert shipping.contents == [lines(0)]


def test_renamed_file_is_read_to_its_end_and_the_new_one_from_its_start(shipping):
    shipping.write(lines(0))
    shipping.step()
    shipping.write(lines(10))
    (shipping.folder / "access.log").rename(shipping.folder / "access.log.1")
    shipping.write(lines(20))
    shipping.step()
    shipping.write(lines(30), "access.log.1")
    shipping.step()

    assert sorted(shipping.contents) == sorted([lines(0, 20) + lines(30), lines(20)])


def test_last_line_without_newline_is_shipped_when_its_file_was_rotated_away(shipping):
    shipping.write(b"first\nno newline")
    shipping.step()
    (shipping.folder / "access.log").rename(shipping.folder / "access.log.1")
    shipping.step(seconds=1)
    assert shipping.contents == [b"first\n"]

    shipping.step(seconds=10)

    assert shipping.contents == [b"first\nno newline"]
    assert list(shipping.follower.files) == []


def test_file_with_nothing_but_an_open_line_is_shipped_when_rotated_away(shipping):
    shipping.write(b"no newline")
    shipping.step()
    (shipping.folder / "access.log").rename(shipping.folder / "access.log.1")
    shipping.step(seconds=10)
    shipping.step(seconds=10)

    assert shipping.contents == [b"no newline"]


def test_rotated_file_that_grows_after_it_was_closed_is_taken_up_again(shipping):
    shipping.write(lines(0))
    shipping.step()
    (shipping.folder / "access.log").rename(shipping.folder / "access.log.1")
    shipping.step(seconds=10)
    shipping.step(seconds=10)
    assert list(shipping.follower.files) == []

    shipping.write(lines(10), "access.log.1")
    shipping.step()

    assert shipping.contents == [lines(0, 20)]


def test_file_missed_between_two_looks_is_found_under_its_rotated_name(shipping):
    shipping.write(lines(0))
    shipping.step()
    (shipping.folder / "access.log").rename(shipping.folder / "access.log.2")
    shipping.write(lines(10))
    (shipping.folder / "access.log").rename(shipping.folder / "access.log.1")
    shipping.write(lines(20))
    shipping.step()

    assert sorted(shipping.contents) == sorted([lines(0), lines(10), lines(20)])


def test_rotated_files_from_before_the_first_start_are_left_alone(shipping):
    shipping.write(lines(0), "access.log.1")
    shipping.write(lines(10))
    shipping.step()
    shipping.write(lines(20), "access.log.1")
    shipping.step()

    assert shipping.contents == [lines(10)]


def test_deleted_file_is_read_to_its_end(shipping):
    shipping.write(lines(0))
    shipping.step()
    shipping.write(lines(10))
    (shipping.folder / "access.log").unlink()
    shipping.step()
    shipping.step(seconds=10)
    assert [generation.is_gone for generation in shipping.follower.generations] == [True]
    shipping.write(lines(20))
    shipping.step()

    assert shipping.contents == [lines(0, 20), lines(20)]


def test_truncated_file_begins_a_new_generation(shipping):
    shipping.write(lines(0))
    shipping.step()
    os.truncate(shipping.folder / "access.log", 0)
    shipping.write(lines(10, 5))
    shipping.step()

    assert shipping.contents == [lines(0), lines(10, 5)]


def test_file_rewritten_to_a_larger_size_between_two_looks_is_noticed(shipping):
    shipping.write(lines(0))
    shipping.step()
    os.truncate(shipping.folder / "access.log", 0)
    shipping.write(lines(10, 30))
    shipping.step()

    assert shipping.contents == [lines(0), lines(10, 30)]


def test_file_rewritten_with_the_same_first_line_gets_a_numbered_generation(shipping):
    shipping.write(b"# header\n" + lines(0))
    shipping.step()
    os.truncate(shipping.folder / "access.log", 0)
    shipping.write(b"# header\n" + lines(10, 30))
    shipping.step()

    assert shipping.contents == [b"# header\n" + lines(0), b"# header\n" + lines(10, 30)]
    assert [name.partition(".")[2] for name in shipping.sent] == ["", "1"]


def test_reused_inode_with_the_same_first_line_is_a_new_file(shipping):
    shipping.write(b"# header\n" + lines(0))
    shipping.step()
    (shipping.folder / "access.log").unlink()
    shipping.step(seconds=10)
    shipping.step(seconds=10)
    shipping.write(b"# header\n" + lines(10))
    shipping.step()

    assert shipping.contents == [b"# header\n" + lines(0), b"# header\n" + lines(10)]


def test_two_files_with_the_same_first_line_are_both_shipped(tmp_path):
    shipping = Shipping(tmp_path, "*.log")
    shipping.write(b"# header\n", "a.log")
    shipping.write(b"# header\n", "b.log")
    shipping.step()
    shipping.write(lines(0), "a.log")
    shipping.write(lines(10), "b.log")
    shipping.step()
    shipping.follower.close()

    assert sorted(shipping.contents) == [b"# header\n" + lines(0), b"# header\n" + lines(10)]


def test_copy_left_by_copying_rotation_is_not_shipped_again(shipping):
    shipping.write(lines(0, 50))
    shipping.step()
    (shipping.folder / "access.log.1").write_bytes(lines(0, 50))
    shipping.step()
    os.truncate(shipping.folder / "access.log", 0)
    shipping.write(lines(50))
    shipping.step()
    shipping.step(seconds=10)

    assert sorted(shipping.contents) == sorted([lines(0, 50), lines(50)])


def test_lines_that_only_the_copy_still_holds_are_taken_from_it(shipping):
    shipping.write(lines(0, 50))
    shipping.step()
    (shipping.folder / "access.log.1").write_bytes(lines(0, 60))
    os.truncate(shipping.folder / "access.log", 0)
    shipping.write(lines(60))
    shipping.step()

    assert sorted(shipping.contents) == sorted([lines(0, 60), lines(60)])


def test_restart_goes_on_at_the_confirmed_position(shipping):
    shipping.write(lines(0))
    shipping.step()
    shipping.restart()
    shipping.write(lines(10))
    shipping.step()

    assert shipping.contents == [lines(0, 20)]


def test_restart_finds_a_file_that_was_rotated_meanwhile(shipping):
    shipping.write(lines(0))
    shipping.step()
    shipping.write(lines(10))
    shipping.restart()
    (shipping.folder / "access.log").rename(shipping.folder / "access.log.1")
    shipping.write(lines(20))
    shipping.step()

    assert sorted(shipping.contents) == sorted([lines(0, 20), lines(20)])


def test_restart_finds_a_file_that_came_and_went_meanwhile(shipping):
    shipping.write(lines(0))
    shipping.step()
    shipping.restart(scanned_at=1.0)
    (shipping.folder / "access.log").rename(shipping.folder / "access.log.2")
    shipping.write(lines(10))
    (shipping.folder / "access.log").rename(shipping.folder / "access.log.1")
    shipping.write(lines(20))
    shipping.step()

    assert sorted(shipping.contents) == sorted([lines(0), lines(10), lines(20)])


def test_restart_leaves_rotated_files_alone_that_are_older_than_the_last_look(shipping):
    shipping.write(lines(0))
    shipping.step()
    shipping.restart(scanned_at=shipping.folder.stat().st_mtime + 3600)
    shipping.write(lines(10), "access.log.1")
    shipping.step()

    assert shipping.contents == [lines(0)]


def test_restart_notices_that_the_file_was_rewritten_meanwhile(shipping):
    shipping.write(lines(0))
    shipping.step()
    shipping.restart()
    os.truncate(shipping.folder / "access.log", 0)
    shipping.write(lines(10, 30))
    shipping.step()

    assert shipping.contents == [lines(0), lines(10, 30)]


def test_restart_after_a_reboot_that_renumbered_devices_goes_on(shipping):
    shipping.write(lines(0))
    shipping.step()
    for generation in shipping.follower.generations:
        generation.device += 1
    shipping.restart()
    shipping.write(lines(10))
    shipping.step()

    assert shipping.contents == [lines(0, 20)]


def test_unconfirmed_records_are_read_again_after_a_restart(shipping):
    shipping.confirms = False
    shipping.write(lines(0))
    shipping.step()
    stored = tuple(shipping.follower.generations)
    assert stored[0].position.confirmed == 0

    shipping.confirms = True
    stored[0].position._sent.clear()
    shipping.restart()
    shipping.step()

    assert shipping.contents == [lines(0) * 2]


def test_start_at_end_skips_what_was_there_but_not_the_open_line(tmp_path):
    shipping = Shipping(tmp_path, start_at_end=True)
    shipping.write(lines(0) + b"op")
    shipping.step()
    shipping.write(b"en\n" + lines(10))
    shipping.step()
    shipping.follower.close()

    assert shipping.contents == [b"open\n" + lines(10)]


def test_start_at_end_reads_files_that_appear_later_from_their_start(tmp_path):
    shipping = Shipping(tmp_path, start_at_end=True)
    shipping.step()
    shipping.write(lines(0))
    shipping.step()
    shipping.follower.close()

    assert shipping.contents == [lines(0)]


def test_missing_folder_is_reported_once_and_found_later(tmp_path, caplog):
    shipping = Shipping(tmp_path / "later")
    with caplog.at_level(logging.ERROR, logger="ship"):
        for _ in range(5):
            shipping.now += 1
            shipping.follower.look(shipping.now, shipping.now)
    assert [record.message for record in caplog.records] == ["log folder is missing"]

    (tmp_path / "later").mkdir()
    shipping.write(lines(0))
    shipping.step()
    shipping.follower.close()

    assert shipping.contents == [lines(0)]


@pytest.mark.parametrize("kind", ["fifo", "symlink"])
def test_what_is_not_a_regular_file_is_reported_once_and_never_read(tmp_path, caplog, kind):
    shipping = Shipping(tmp_path, "*.log")
    shipping.write(lines(0), "good.log")
    (tmp_path / "secret").write_bytes(b"not a log\n")
    if kind == "fifo":
        os.mkfifo(tmp_path / "bad.log")
    else:
        (tmp_path / "bad.log").symlink_to(tmp_path / "secret")

    with caplog.at_level(logging.ERROR, logger="ship"):
        for _ in range(3):
            shipping.step()
    shipping.follower.close()

    assert shipping.contents == [lines(0)]
    assert [record.message for record in caplog.records] == ["log file cannot be opened"]


def test_compressed_rotations_are_not_read(tmp_path):
    shipping = Shipping(tmp_path, "access.log*")
    shipping.write(lines(0))
    shipping.write(b"\x1f\x8b\n", "access.log.2.gz")
    shipping.step()
    shipping.follower.close()

    assert shipping.contents == [lines(0)]


def test_busy_file_does_not_starve_the_others(tmp_path):
    shipping = Shipping(tmp_path, "*.log", chunk_bytes=4096)
    shipping.write(lines(0, 2000), "a.log")
    shipping.write(lines(5000, 2000), "b.log")
    shipping.follower.look(1.0, 1.0)
    for _ in range(2):
        records = next(shipping.follower.read(1.0))
        for record in records:
            shipping._publish(record)
    shipping.follower.close()

    assert len(shipping.contents) == 2


def test_path_stays_that_of_the_first_name(shipping):
    shipping.write(lines(0))
    shipping.step()
    (shipping.folder / "access.log").rename(shipping.folder / "access.log.1")
    shipping.step()

    [generation] = shipping.follower.generations
    assert generation.path == str(shipping.folder / "access.log")


def test_at_the_limit_of_open_files_the_quietest_waits_closed(tmp_path):
    shipping = Shipping(tmp_path, "*.log", max_open_files=2)
    for number in range(5):
        shipping.write(lines(100 * number), f"{number}.log")
    for _ in range(6):
        shipping.step()
    for number in range(5):
        shipping.write(lines(100 * number + 10), f"{number}.log")
    for _ in range(6):
        shipping.step()
        assert len(list(shipping.follower.files)) == 2
    shipping.follower.close()

    assert sorted(shipping.contents) == [lines(100 * number, 20) for number in range(5)]


def test_remembered_generations_stay_bounded(shipping, monkeypatch):
    monkeypatch.setattr(log_follower, "MAX_REMEMBERED_GENERATIONS", 5)
    for number in range(20):
        shipping.write(lines(10 * number))
        shipping.step(seconds=10)
        os.truncate(shipping.folder / "access.log", 0)
        shipping.step(seconds=10)

    assert len(list(shipping.follower.generations)) <= 6
    assert shipping.contents == [lines(10 * number) for number in range(20)]
