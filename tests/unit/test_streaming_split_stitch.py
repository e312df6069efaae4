"""However a range is cut into tasks: the joined result is the one of a single task."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from ingest.log_record import RecordIdentity, encode_key
from streaming.completeness import LineSource, admit_records
from streaming.stitch import first_misfit, join_accounts

UNIDENTIFIED = LineSource("unidentified", "", "combined")


def record(generation, start, value, truncated_end=None):
    identity = RecordIdentity("shop", "web", "", "combined", generation, start, truncated_end)
    return encode_key(identity), value


def admit(records, counted_until):
    return admit_records(
        [key for key, _ in records], [value for _, value in records], counted_until, UNIDENTIFIED
    )


def in_parts(records, cuts, counted_until):
    """What the driver does: read the parts alone, read again what does not fit; how often that was."""
    edges = sorted({0, len(records), *(min(cut, len(records)) for cut in cuts)})
    parts = [records[start:end] for start, end in pairwise(edges)] or [[]]
    done = [admit(part, counted_until) for part in parts]
    repeated = 0
    while misfit := first_misfit([list(one.generations.values()) for one in done]):
        knowing = {**counted_until, **misfit.ends}
        done[misfit.part] = admit(parts[misfit.part], knowing)
        repeated += 1
    return done, repeated


def lines_of(admissions):
    return [
        line
        for admission in admissions
        for found in admission.sources.values()
        for value in found.values
        for line in value.split(b"\n")
    ]


def same_as_whole(records, cuts, counted_until):
    whole = admit(records, counted_until)
    parts, repeated = in_parts(records, cuts, counted_until)
    joined = join_accounts([list(one.generations.values()) for one in parts])
    assert [replace(one) for one in whole.generations.values()] == joined
    assert sorted(lines_of([whole])) == sorted(lines_of(parts))
    assert sum(one.byte_count for one in joined) == sum(
        one.byte_count for part in parts for one in part.generations.values()
    )
    return repeated


def test_parts_that_follow_each_other_fit_at_once():
    records = [record("g", start, b"123") for start in (0, 4, 8, 12)]

    assert same_as_whole(records, [2], {}) == 0


def test_gap_at_the_cut_is_counted():
    assert same_as_whole([record("g", 0, b"123"), record("g", 10, b"1")], [1], {}) == 0


def test_resend_across_the_cut_is_read_again_and_dropped():
    records = [record("g", 0, b"a\nb"), record("g", 0, b"a\nb\nc")]

    assert same_as_whole(records, [1], {}) == 1


def test_resend_of_committed_lines_needs_no_second_reading():
    records = [record("g", 10, b"new"), record("g", 0, b"old"), record("g", 14, b"x")]

    assert same_as_whole(records, [1, 2], {"g": 10}) == 0


def test_each_part_is_read_again_at_most_once():
    records = [record("g", 0, b"abc")] * 6

    assert same_as_whole(records, [1, 2, 3, 4, 5], {}) == 5


starts = st.integers(0, 24)
values = st.lists(st.sampled_from([b"", b"a", b"bb", b"cccc"]), min_size=1, max_size=4)
records_of = st.lists(
    st.tuples(
        st.sampled_from(["g1", "g2", "g3"]),
        starts,
        values.map(b"\n".join),
        st.one_of(st.none(), st.none(), st.integers(0, 40)),
    ),
    max_size=16,
)


@given(
    rows=records_of,
    cuts=st.lists(st.integers(0, 16), max_size=6),
    counted=st.dictionaries(st.sampled_from(["g1", "g2"]), starts),
)
@example(rows=[("g1", 5, b"", 0), ("g1", 4, b"a", 3)], cuts=[1], counted={})
@example(
    rows=[("g1", 9, b"a", None), ("g1", 2, b"a", 3), ("g1", 9, b"a\nb", None)],
    cuts=[1, 2],
    counted={},
)
def test_any_split_of_any_records_gives_the_result_of_one_task(rows, cuts, counted):
    """Records at arbitrary offsets: re-sent, overlapping, with gaps, cut, and with lying keys."""
    same_as_whole([record(*row) for row in rows], cuts, counted)


@given(
    lines=st.lists(st.sampled_from([b"", b"x", b"yyy"]), min_size=1, max_size=20),
    sends=st.lists(st.tuples(st.integers(0, 19), st.integers(1, 6)), max_size=20),
    cuts=st.lists(st.integers(0, 20), max_size=5),
)
def test_every_line_of_a_file_counts_once_in_whatever_parts_it_is_read(lines, sends, cuts):
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    records, sent = [], 0
    for wanted, length in [*sends, (0, len(lines))]:
        first = min(wanted, sent)
        last = min(first + length, len(lines))
        if first < last:
            records.append(record("g", offsets[first], b"\n".join(lines[first:last])))
            sent = max(sent, last)

    done, _ = in_parts(records, cuts, {})

    assert lines_of(done) == lines
    [account] = join_accounts([list(one.generations.values()) for one in done])
    assert (account.gap_bytes, account.byte_count) == (0, offsets[-1])
