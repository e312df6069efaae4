"""Records tile the file: nothing lost, nothing twice, whatever bytes arrive in whatever pieces."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.cut_records import CutLimits, CutRecord, Uncut, cut_last_line, cut_records

ROOMY = CutLimits(lines_per_record=500, record_bytes=65_536, line_bytes=65_536)


def cut_in_pieces(data: bytes, piece: int, limits: CutLimits) -> list[CutRecord]:
    uncut, records = Uncut(0), []
    for start in range(0, len(data), piece):
        more, uncut = cut_records(uncut, data[start : start + piece], limits)
        assert len(uncut.data) <= limits.line_cap
        records += more
    return records + cut_last_line(uncut)


def bytes_of(record: CutRecord) -> bytes:
    return record.value if record.truncated_end is not None else record.value + b"\n"


def test_complete_lines_are_packed_and_the_open_one_waits():
    records, uncut = cut_records(Uncut(0), b"a\nbc\nde", ROOMY)

    assert records == [CutRecord(0, 5, b"a\nbc", 2)]
    assert uncut == Uncut(5, b"de", 2)


def test_open_line_is_completed_by_later_bytes():
    _, uncut = cut_records(Uncut(0), b"a\nbc", ROOMY)

    records, uncut = cut_records(uncut, b"d\n", ROOMY)

    assert records == [CutRecord(2, 6, b"bcd", 1)]
    assert uncut == Uncut(6)


def test_record_holds_no_more_lines_than_allowed():
    records, _ = cut_records(Uncut(0), b"1\n2\n3\n4\n5\n", CutLimits(2, 65_536, 65_536))

    assert [record.value for record in records] == [b"1\n2", b"3\n4", b"5"]


def test_record_holds_no_more_bytes_than_allowed():
    records, _ = cut_records(Uncut(0), b"aaaa\nbbbb\ncccc\n", CutLimits(500, 9, 9))

    assert [record.value for record in records] == [b"aaaa\nbbbb", b"cccc"]


def test_long_line_is_cut_and_says_where_the_next_begins():
    records, _ = cut_records(Uncut(0), b"ok\n0123456789\nok\n", CutLimits(500, 100, 4))

    assert records == [
        CutRecord(0, 3, b"ok", 1),
        CutRecord(3, 14, b"0123", 1),
        CutRecord(14, 17, b"ok", 1),
    ]
    assert [record.truncated_end for record in records] == [None, 14, None]
    assert [record.is_truncated for record in records] == [False, True, False]


def test_endless_line_keeps_only_its_first_bytes_in_memory():
    uncut = Uncut(0)
    for _ in range(100):
        records, uncut = cut_records(uncut, b"x" * 1000, CutLimits(500, 64, 64))
        assert records == []

    records, uncut = cut_records(uncut, b"x\nnext\n", CutLimits(500, 64, 64))

    assert records[0] == CutRecord(0, 100_002, b"x" * 64, 1)
    assert records[1] == CutRecord(100_002, 100_007, b"next", 1)


def test_last_line_without_newline_ends_where_its_bytes_end():
    [record] = cut_last_line(Uncut(10, b"abc", 3))

    assert (record.truncated_end, record.is_truncated) == (13, False)


def test_nul_carriage_return_and_invalid_utf8_pass_untouched():
    hostile = b"\x00\r\xff\xfe \x85 \xe2\x80\xa8 \x1b[2J"

    [record], _ = cut_records(Uncut(0), hostile + b"\n", ROOMY)

    assert record.value == hostile


hostile_lines = st.lists(
    st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"\r")), max_size=60
)


@settings(max_examples=150, deadline=None)
@given(hostile_lines, st.binary(max_size=20), st.integers(1, 64), st.integers(1, 7))
def test_records_reproduce_the_file_byte_for_byte(lines, rest, piece, lines_per_record):
    data = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b"")
    limits = CutLimits(lines_per_record, record_bytes=60, line_bytes=60)

    records = cut_in_pieces(data, piece, limits)

    assert b"".join(bytes_of(record) for record in records) == data
    assert all(record.line_count <= lines_per_record for record in records)
    assert all(len(record.value) <= 60 for record in records)


@settings(max_examples=150, deadline=None)
@given(hostile_lines, st.integers(1, 64), st.integers(1, 30), st.integers(1, 50))
def test_records_tile_the_file_even_when_lines_are_cut(lines, piece, line_bytes, record_bytes):
    data = b"".join(line + b"\n" for line in lines)
    limits = CutLimits(5, record_bytes, line_bytes)

    records = cut_in_pieces(data, piece, limits)

    ends = [0, *(record.end for record in records)]
    assert [record.start for record in records] == ends[:-1]
    assert ends[-1] == len(data)
    assert sum(record.line_count for record in records) == len(lines)
    cap = limits.line_cap
    assert [line for r in records for line in r.value.split(b"\n")] == [x[:cap] for x in lines]
    assert [r.is_truncated for r in records].count(True) == sum(len(x) > cap for x in lines)
