"""The confirmed position never passes a byte that Kafka did not confirm."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.file_identity import Mark, mark
from ingest.file_position import FilePosition, WaitingBytes


@dataclass(frozen=True)
class ARange:
    start: int
    end: int

    def tail(self) -> Mark:
        return mark(b"%d" % self.end, max(0, self.end - 1))


def a_position(*ends: int) -> FilePosition:
    position = FilePosition(0, mark(b"", 0))
    for start, end in zip((0, *ends), ends, strict=False):
        position.send(ARange(start, end))
    return position


def test_position_waits_for_the_hole_to_close():
    position = a_position(10, 20, 30)

    position.confirm(10)
    position.confirm(20)
    assert position.confirmed == 0
    assert position.tail == mark(b"", 0)

    position.confirm(0)
    assert position.confirmed == 30
    assert position.tail == ARange(20, 30).tail()
    assert position.is_settled


def test_range_that_leaves_a_gap_is_refused():
    position = a_position(10)

    with pytest.raises(ValueError, match=r"\[11, 20\) does not continue position 10"):
        position.send(ARange(11, 20))


def test_next_range_begins_after_the_last_one_sent():
    assert a_position(10, 25).next_start == 25


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_confirmed_position_is_the_end_of_the_confirmed_prefix(lengths, random):
    ends = [sum(lengths[: count + 1]) for count in range(len(lengths))]
    starts = [0, *ends[:-1]]
    position = a_position(*ends)
    order = random.sample(range(len(lengths)), len(lengths))

    for count, index in enumerate(order):
        position.confirm(starts[index])
        done = set(order[: count + 1])
        prefix = next((i for i in range(len(lengths)) if i not in done), len(lengths))
        assert position.confirmed == [0, *ends][prefix]


def test_waiting_time_is_that_of_the_oldest_unconfirmed_byte():
    waiting = WaitingBytes()
    waiting.notice(100, now=1.0)
    waiting.notice(200, now=2.0)
    assert waiting.seconds(now=5.0) == 4.0

    waiting.confirm(100)
    assert waiting.seconds(now=5.0) == 3.0

    waiting.confirm(200)
    assert waiting.seconds(now=5.0) == 0.0


def test_waiting_notices_stay_bounded_and_keep_the_oldest():
    waiting = WaitingBytes()

    for second in range(1000):
        waiting.notice(100 + second, now=float(second))

    assert len(waiting._noticed) == 64
    assert waiting.seconds(now=1000.0) == 1000.0
