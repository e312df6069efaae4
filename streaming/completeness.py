"""The proof that no line was lost or counted twice between the file and the window.

Pure. Records of one file generation must follow each other byte for byte. What lies below the highest counted byte is a
re-send and is dropped, what overlaps it is trimmed, a jump above it is a gap and is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ingest.log_record import RecordIdentity, decode_key


@dataclass(frozen=True, slots=True)
class LineSource:
    """What lines share that are parsed together: who sent them and in which format."""

    service: str
    vhost: str
    format_id: str


@dataclass(slots=True)
class GenerationAccount:
    """What arrived of one physical file in one range: lines, bytes, and what did not fit together."""

    generation: str
    service: str
    host: str
    path: str
    first_offset: int
    """Up to where the file was counted before; where that is not known, the first record's offset."""
    end_offset: int
    lines: int = 0
    gap_bytes: int = 0
    resent_lines: int = 0
    first_counted: int | None = None
    """Byte offset of the first record that was counted: what the parts of a split range are joined by."""

    @property
    def byte_count(self) -> int:
        """Bytes counted, newlines included."""
        return self.end_offset - self.first_offset - self.gap_bytes


@dataclass(slots=True)
class SourceLines:
    """The values to count of one source; for each, the index of its record and its number of lines."""

    values: list[bytes] = field(default_factory=list)
    record_indexes: list[int] = field(default_factory=list)
    line_counts: list[int] = field(default_factory=list)

    def add(self, value: bytes, record_index: int, lines: int) -> None:
        """Count a value."""
        self.values.append(value)
        self.record_indexes.append(record_index)
        self.line_counts.append(lines)


@dataclass(slots=True)
class Admission:
    """What counts, by source, and the accounts."""

    sources: dict[LineSource, SourceLines] = field(default_factory=dict)
    generations: dict[str, GenerationAccount] = field(default_factory=dict)
    first_record_of: dict[str, int] = field(default_factory=dict)
    unproven_lines: int = 0
    unproven_bytes: int = 0
    empty_records: int = 0

    def lines_of(self, source: LineSource) -> SourceLines:
        """Where the lines of a source are collected."""
        return self.sources.setdefault(source, SourceLines())


@dataclass(slots=True)
class _Sender:
    """All records whose keys differ only in the byte offset: one account, one source."""

    account: GenerationAccount
    lines: SourceLines


def admit_records(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    counted_until: Mapping[str, int],
    unidentified: LineSource,
) -> Admission:
    """Decide, record by record in offset order, what counts.

    `counted_until` holds, for each generation, the highest byte offset that committed batches counted.
    """
    admission = Admission()
    senders: dict[bytes, _Sender] = {}
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        if value is None:
            admission.empty_records += 1
            continue
        # Nearly every record follows the one before it: its key then needs no decoding.
        head, _, tail = (key or b"").rpartition(b"|")
        name, _, offset = head.rpartition(b"|")
        sender = senders.get(name)
        if sender is not None and not tail and offset.isdigit():
            account, start = sender.account, int(offset)
            if start == account.end_offset and account.first_counted is not None:
                lines = value.count(b"\n") + 1
                account.lines += lines
                account.end_offset = start + len(value) + 1
                sender.lines.add(value, index, lines)
                continue
        identity = decode_key(key)
        if identity is None:
            _admit_unidentified(admission, value, index, unidentified)
            continue
        if sender is None:
            sender = senders[name] = _open_sender(admission, identity, index, counted_until)
        _admit_identified(sender, identity, value, index)
    return admission


def _admit_unidentified(
    admission: Admission, value: bytes, index: int, unidentified: LineSource
) -> None:
    lines = value.count(b"\n") + 1
    admission.unproven_lines += lines
    admission.unproven_bytes += len(value) + 1
    admission.lines_of(unidentified).add(value, index, lines)


def _open_sender(
    admission: Admission, identity: RecordIdentity, index: int, counted_until: Mapping[str, int]
) -> _Sender:
    account = admission.generations.get(identity.generation)
    if account is None:
        start = counted_until.get(identity.generation, identity.byte_offset)
        account = GenerationAccount(
            identity.generation, identity.service, identity.host, "", start, start
        )
        admission.generations[identity.generation] = account
        admission.first_record_of[identity.generation] = index
    source = LineSource(identity.service, identity.vhost, identity.format_id)
    return _Sender(account, admission.lines_of(source))


def _admit_identified(sender: _Sender, identity: RecordIdentity, value: bytes, index: int) -> None:
    account, start = sender.account, identity.byte_offset
    # Whatever a key claims, a record stands for at least one byte of its file.
    end = max(identity.end_offset(len(value)), start + 1)
    overlap = account.end_offset - start
    lines = value.count(b"\n") + 1
    # A cut line cannot be counted in part: once any of it was counted, it was counted.
    if end <= account.end_offset or (overlap > 0 and identity.truncated_end is not None):
        account.resent_lines += lines
        return
    if overlap > 0:
        account.resent_lines += value[:overlap].count(b"\n")
        value = value[overlap:]
        lines = value.count(b"\n") + 1
    account.gap_bytes += max(-overlap, 0)
    account.lines += lines
    account.end_offset = end
    if account.first_counted is None:
        account.first_counted = start
    sender.lines.add(value, index, lines)
