from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from deploy.local import process_table
from deploy.local.process_table import ProcessName
from deploy.local.run_file import RunFile, RunRecord, read_record


def test_record_survives_writing_and_reading() -> None:
    record = RunRecord("abc", ProcessName(10, 100), (("kafka", ProcessName(11, 101)),))

    assert read_record(record.to_json()) == record


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param('{"version": 1, "tok', id="cut short"),
        pytest.param("[]", id="another make"),
        pytest.param('{"token": "x", "owner": {}, "children": []}', id="without an owner"),
    ],
)
def test_unusable_record_is_no_record(text: str) -> None:
    assert read_record(text) is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_process_with_the_same_id_but_another_start_is_a_stranger() -> None:
    ourselves = process_table.name_of(os.getpid())
    assert ourselves is not None

    stranger = ProcessName(ourselves.pid, ourselves.start_ticks + 1)

    assert process_table.is_alive(ourselves)
    assert not process_table.is_alive(stranger)


def test_recorded_foreign_process_is_never_ended(tmp_path: Path) -> None:
    """A dead run's process id now belongs to us: without its token we are left alone."""
    ourselves = process_table.name_of(os.getpid())
    assert ourselves is not None
    stale = RunRecord("token-of-a-dead-run", ourselves, (("kafka", ourselves),))
    (tmp_path / "run.json").write_text(stale.to_json())

    run_file = RunFile(tmp_path)

    assert run_file.leftovers == 0
    assert run_file.token != "token-of-a-dead-run"
    run_file.close()
