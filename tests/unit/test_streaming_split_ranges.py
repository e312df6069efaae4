"""Spark's KafkaOffsetRangeCalculatorSuite (its vectors), its offset reader's split tests, properties of any split.

Not applicable: preferred locations (SPARK-46798 and "with executors"): `spark.locality.wait` is 0 here, any free worker
reads any range; and the EARLIEST/LATEST markers of F6: ranges are concrete before they are split.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.offset_range import OffsetRange, TopicPartition
from streaming.plan.split_ranges import SplitLimits, divided, split_ranges


def span(topic, start, until):
    return OffsetRange(TopicPartition(f"t{topic}", 1), start, until)


def flat(ranges, parts, limits=None):
    return [
        (part.partition.topic, part.from_offset, part.until_offset)
        for split in split_ranges(ranges, parts, limits)
        for part in split
    ]


@pytest.mark.parametrize(
    ("parts", "ranges", "expected"),
    [
        pytest.param(1, [(1, 1, 2)], [(1, 1, 2)], id="no minimum, N to N"),
        pytest.param(1, [(1, 1, 2), (2, 1, 1)], [(1, 1, 2)], id="no minimum, empty ignored"),
        pytest.param(
            3,
            [(1, 1, 2), (2, 1, 2), (3, 1, 2)],
            [(1, 1, 2), (2, 1, 2), (3, 1, 2)],
            id="N to N",
        ),
        pytest.param(4, [(1, 1, 5)], [(1, 1, 2), (1, 2, 3), (1, 3, 4), (1, 4, 5)], id="1 to N"),
        pytest.param(
            4,
            [(1, 1, 5), (2, 1, 21)],
            [(1, 1, 5), (2, 1, 7), (2, 7, 14), (2, 14, 21)],
            id="N skewed to M",
        ),
        pytest.param(
            4,
            [(1, 1, 1), (2, 1, 21)],
            [(2, 1, 6), (2, 6, 11), (2, 11, 16), (2, 16, 21)],
            id="SPARK-30656 empty ignored, rest split",
        ),
        pytest.param(
            4,
            [(1, 1, 2), (2, 1, 1001)],
            [(1, 1, 2), (2, 1, 334), (2, 334, 667), (2, 667, 1001)],
            id="SPARK-30656 very skewed",
        ),
        pytest.param(
            1,
            [(1, 1, 5), (2, 1, 21)],
            [(1, 1, 5), (2, 1, 21)],
            id="SPARK-30656 fewer parts than ranges",
        ),
        pytest.param(3, [(1, 1, 11)], [(1, 1, 4), (1, 4, 7), (1, 7, 11)], id="inexact multiple"),
        pytest.param(
            4,
            [(1, 1, 5), (2, 1, 21), (3, 1, 1)],
            [(1, 1, 5), (2, 1, 7), (2, 7, 14), (2, 14, 21)],
            id="empty ignored",
        ),
        pytest.param(
            6,
            [(1, 0, 10), (2, 0, 10), (3, 0, 1)],
            [(1, 0, 3), (1, 3, 6), (1, 6, 10), (2, 0, 3), (2, 3, 6), (2, 6, 10), (3, 0, 1)],
            id="SPARK-28489 never drop offsets",
        ),
        pytest.param(
            9,
            [(1, 0, 10000), (2, 0, 15000), (3, 0, 20000)],
            [
                *((1, start, start + 5000) for start in (0, 5000)),
                *((2, start, start + 5000) for start in (0, 5000, 10000)),
                *((3, start, start + 5000) for start in (0, 5000, 10000, 15000)),
            ],
            id="SPARK-36576 no small range",
        ),
        pytest.param(
            6,
            [(1, 0, 500), (2, 0, 12000), (3, 0, 15001)],
            [
                *((1, 0, 500), (2, 0, 6000), (2, 6000, 12000)),
                *((3, 0, 5000), (3, 5000, 10000), (3, 10000, 15001)),
            ],
            id="SPARK-36576 one small range",
        ),
        pytest.param(
            6,
            [(1, 0, 1), (2, 0, 1), (3, 0, 10000)],
            [
                *((1, 0, 1), (2, 0, 1)),
                *((3, start, start + 2500) for start in (0, 2500, 5000, 7500)),
            ],
            id="SPARK-36576 two small ranges",
        ),
    ],
)
def test_ranges_are_split_as_spark_splits_them(parts, ranges, expected):
    assert flat([span(*one) for one in ranges], parts) == [
        (f"t{topic}", start, until) for topic, start, until in expected
    ]


def test_f5_specific_offsets_in_three_parts():
    assert flat([span(1, 1, 4)], 3) == [("t1", 1, 2), ("t1", 2, 3), ("t1", 3, 4)]


def test_f8_f9_only_the_large_of_two_partitions_is_split():
    assert flat([span(1, 0, 100), span(2, 0, 3)], 4) == [
        ("t1", 0, 33),
        ("t1", 33, 66),
        ("t1", 66, 100),
        ("t2", 0, 3),
    ]


def test_spark_49259_maximum_of_a_task_splits_one_range():
    assert flat([span(1, 1, 5)], 1, SplitLimits(max_records=1)) == [
        ("t1", start, start + 1) for start in range(1, 5)
    ]


def test_spark_49259_maximum_of_a_task_splits_each_range_into_equal_parts():
    assert flat([span(1, 0, 10), span(2, 0, 4)], 2, SplitLimits(max_records=4)) == [
        ("t1", 0, 3),
        ("t1", 3, 6),
        ("t1", 6, 10),
        ("t2", 0, 4),
    ]


def test_parts_smaller_than_the_minimum_are_not_made():
    assert flat([span(1, 0, 100)], 4, SplitLimits(min_records=40)) == [
        ("t1", 0, 50),
        ("t1", 50, 100),
    ]


def test_the_maximum_of_a_task_wins_over_the_minimum_of_a_part():
    assert len(flat([span(1, 0, 100)], 1, SplitLimits(min_records=1000, max_records=10))) == 10


def test_range_with_fewer_offsets_than_parts_has_no_empty_part():
    assert [one.count for one in divided(span(1, 5, 7), 10)] == [1, 1]


spans = st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**6)), max_size=8)


@given(
    sizes=spans,
    parts=st.integers(1, 64),
    minimum=st.integers(1, 1000),
    maximum=st.integers(0, 10**5).map(lambda number: number and number + 5000),
)
def test_parts_always_tile_their_range_and_respect_the_limits(sizes, parts, minimum, maximum):
    ranges = [span(topic, start, start + size) for topic, (start, size) in enumerate(sizes)]
    filled = [one for one in ranges if one.count]
    splits = split_ranges(ranges, parts, SplitLimits(minimum, maximum))

    assert len(splits) == len(filled)
    for whole, split in zip(filled, splits, strict=True):
        cuts = [split[0].from_offset, *(part.until_offset for part in split)]
        assert (cuts[0], cuts[-1]) == (whole.from_offset, whole.until_offset)
        assert [part.from_offset for part in split] == cuts[:-1]
        assert all(part.count > 0 and part.partition == whole.partition for part in split)
        assert not maximum or all(part.count <= maximum for part in split)
        if not maximum and len(split) > 1:
            assert min(part.count for part in split) >= minimum
