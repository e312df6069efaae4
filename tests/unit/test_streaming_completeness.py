"""Whatever is re-sent, however it is cut: every byte of a file counts once."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.log_record import RecordIdentity, encode_key
from streaming.completeness import LineSource, admit_records

UNIDENTIFIED = LineSource("unidentified", "", "combined")


def key(offset, generation="g1", truncated_end=None):
    return encode_key(
        RecordIdentity("shop", "web-1", "", "combined", generation, offset, truncated_end)
    )


def admit(*records, counted_until=None):
    keys, values = zip(*records, strict=True)
    return admit_records(keys, values, counted_until or {}, UNIDENTIFIED)


def counted(admission):
    return [value for found in admission.sources.values() for value in found.values]


def test_records_that_follow_each_other_have_no_gap():
    admission = admit((key(0), b"one\ntwo"), (key(8), b"three"))
    account = admission.generations["g1"]

    assert (account.lines, account.gap_bytes, account.end_offset) == (3, 0, 14)
    assert account.byte_count == len(b"one\ntwo\nthree\n")


def test_record_below_what_was_counted_is_dropped():
    admission = admit((key(0), b"one\ntwo"), counted_until={"g1": 8})

    assert counted(admission) == []
    assert admission.generations["g1"].resent_lines == 2


def test_record_that_overlaps_is_trimmed_at_the_line():
    admission = admit((key(0), b"one\ntwo\nthree"), counted_until={"g1": 8})

    assert counted(admission) == [b"three"]
    assert admission.generations["g1"].resent_lines == 2


def test_jump_is_a_gap_of_exactly_the_missing_bytes():
    admission = admit((key(0), b"one"), (key(10), b"x"))

    assert admission.generations["g1"].gap_bytes == 6


def test_lines_of_other_shippers_count_as_unproven():
    admission = admit((None, b"a\nb"), (b"some-key", b"c"))

    assert admission.unproven_lines == 3
    assert counted(admission) == [b"a\nb", b"c"]


def test_record_without_value_holds_no_line():
    assert admit((None, None)).empty_records == 1


def test_cut_line_continues_where_the_shipper_says():
    admission = admit((key(0, truncated_end=1000), b"x" * 10), (key(1000), b"next"))

    assert admission.generations["g1"].gap_bytes == 0
    assert admission.generations["g1"].end_offset == 1005


def test_cut_line_that_was_counted_is_never_counted_again_in_part():
    admission = admit((key(0, truncated_end=1000), b"x" * 10), counted_until={"g1": 500})

    assert counted(admission) == []
    assert admission.generations["g1"].resent_lines == 1


def test_key_that_claims_to_end_before_it_begins_stands_for_one_byte():
    admission = admit((key(100, truncated_end=3), b"liar"), (key(101), b"next"))

    assert counted(admission) == [b"liar", b"next"]
    assert admission.generations["g1"].end_offset == 106


def test_files_of_several_senders_are_kept_apart_although_their_records_alternate():
    admission = admit(
        (key(0), b"a"), (key(0, "g2"), b"bb"), (key(2), b"c"), (key(3, "g2"), b"dd"), (None, b"e")
    )

    assert {one.generation: one.end_offset for one in admission.generations.values()} == {
        "g1": 4,
        "g2": 6,
    }
    assert admission.sources[UNIDENTIFIED].record_indexes == [4]


def test_m26_null_keys_and_values_and_empty_values_are_counted_and_block_nothing():
    admission = admit((None, None), (key(0), None), (None, b""), (b"", b""), (key(0), b"x"))

    assert admission.empty_records == 2
    assert admission.unproven_lines == 2
    assert admission.generations["g1"].lines == 1


def test_keys_that_only_look_like_ours_are_unproven():
    strange = [
        b"palisade1|a|b|c|d|g1||",
        b"palisade1|a|b|c|d|g1|-5|",
        b"palisade1|a|b|c|d|g1|5",
        b"palisade1|a|b|c|d|g1|\xff|",
        b"||||||||",
    ]
    admission = admit(*((one, b"line") for one in strange))

    assert admission.unproven_lines == len(strange)
    assert not admission.generations


def test_empty_line_is_a_line():
    assert admit((key(0), b""), (key(1), b"")).generations["g1"].lines == 2


@given(
    lines=st.lists(
        st.binary(max_size=6).filter(lambda line: b"\n" not in line), min_size=1, max_size=12
    ),
    cuts=st.lists(st.tuples(st.integers(0, 11), st.integers(1, 4)), max_size=20),
    batches=st.integers(1, 4),
)
def test_every_line_counts_once_however_often_it_is_sent(lines, cuts, batches):
    """Records are arbitrary runs of the file's lines, never starting above what was already sent."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    records, sent = [], 0
    for wanted, length in [*cuts, (0, len(lines))]:
        first = min(wanted, sent)
        last = min(first + length, len(lines))
        if first == last:
            continue
        records.append((key(starts[first]), b"\n".join(lines[first:last])))
        sent = max(sent, last)

    total, known = [], {}
    size = max(len(records) // batches, 1)
    for begin in range(0, len(records), size):
        admission = admit(*records[begin : begin + size], counted_until=known)
        total += [line for value in counted(admission) for line in value.split(b"\n")]
        known = {one.generation: one.end_offset for one in admission.generations.values()}
        assert all(one.gap_bytes == 0 for one in admission.generations.values())

    assert total == lines
