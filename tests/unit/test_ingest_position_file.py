"""Positions survive a crash at any instant, and damage is never silent."""

import json
import logging
import stat

import pytest

from ingest.errors import PositionsUnreadableError, StateInUseError
from ingest.file_identity import mark
from ingest.file_position import FilePosition
from ingest.generation import Generation
from ingest.position_file import PositionFile


def a_generation(position: int = 10) -> Generation:
    return Generation(
        id="0123456789abcdef",
        path="/logs/access.log",
        device=1,
        inode=2,
        head=mark(b"first\n", 0),
        position=FilePosition(position, mark(b"x\n", position - 2)),
        partition=3,
    )


@pytest.fixture
def positions(tmp_path):
    with PositionFile(tmp_path / "state").locked() as position_file:
        yield position_file


def test_first_start_has_no_positions(positions):
    assert positions.load() is None


def test_saved_positions_are_loaded_again(positions):
    positions.save([a_generation()], scanned_at=5.0)

    stored = positions.load()

    assert stored.generations == (a_generation(),)
    assert stored.scanned_at == 5.0


def test_files_are_private(positions, tmp_path):
    positions.save([a_generation()], scanned_at=5.0)

    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "state/positions.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"version": 1, "checksum"', id="half written"),
        pytest.param(b"\x00" * 100, id="zeroes after a crash"),
        pytest.param(b"[]", id="other json"),
        pytest.param(b'{"version": 2, "checksum": "", "positions": {}}', id="a later version"),
    ],
)
def test_damaged_positions_fall_back_to_the_previous_copy_loudly(
    positions, tmp_path, caplog, damage
):
    positions.save([a_generation(10)], scanned_at=1.0)
    positions.save([a_generation(20)], scanned_at=2.0)
    (tmp_path / "state/positions.json").write_bytes(damage)

    with caplog.at_level(logging.ERROR, logger="ship"):
        stored = PositionFile(tmp_path / "state").load()

    assert stored.generations[0].position.confirmed == 10
    assert "positions damaged, previous copy used" in caplog.text


def test_changed_digit_is_noticed_by_the_checksum(positions, tmp_path):
    positions.save([a_generation(10)], scanned_at=1.0)
    path = tmp_path / "state/positions.json"
    document = json.loads(path.read_bytes())
    document["positions"]["files"][0]["position"] = 11
    path.write_text(json.dumps(document))

    with pytest.raises(PositionsUnreadableError, match="does not match its checksum"):
        positions.load()


def test_two_damaged_copies_are_refused_by_name(positions, tmp_path):
    for name in ("positions.json", "positions.json.1"):
        (tmp_path / "state" / name).write_bytes(b"")

    with pytest.raises(PositionsUnreadableError) as refusal:
        positions.load()

    assert str(tmp_path / "state/positions.json.1") in str(refusal.value)
    assert "remove both" in str(refusal.value)


def test_missing_main_copy_falls_back_to_the_previous_one(positions, tmp_path):
    positions.save([a_generation(10)], scanned_at=1.0)
    (tmp_path / "state/positions.json").rename(tmp_path / "state/positions.json.1")

    assert positions.load().generations[0].position.confirmed == 10


def test_damaged_copy_never_replaces_the_good_previous_one(positions, tmp_path):
    positions.save([a_generation(10)], scanned_at=1.0)
    positions.save([a_generation(20)], scanned_at=2.0)
    (tmp_path / "state/positions.json").write_bytes(b"")
    again = PositionFile(tmp_path / "state")
    again.load()

    again.save([a_generation(30)], scanned_at=3.0)

    (tmp_path / "state/positions.json").write_bytes(b"")
    assert again.load().generations[0].position.confirmed == 10


def test_second_shipper_is_refused_with_the_pid_of_the_first(positions, tmp_path):
    with (
        pytest.raises(StateInUseError, match=r"pid \d+\) uses .*ship\.state_dir"),
        PositionFile(tmp_path / "state").locked(),
    ):
        pass


def test_lock_is_free_again_when_its_owner_leaves(tmp_path):
    for _ in range(2):
        with PositionFile(tmp_path / "state").locked():
            pass
