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
    end_offset: int
    lines: int = 0
    gap_bytes: int = 0
    resent_lines: int = 0

    @property
    def byte_count(self) -> int:
        """Bytes counted, newlines included."""
        return self.end_offset - self.first_offset - self.gap_bytes


@dataclass(slots=True)
class Admission:
    """The values to count, by source, with the index of the record each came from; and the accounts."""

    values: dict[LineSource, list[bytes]] = field(default_factory=dict)
    record_indexes: dict[LineSource, list[int]] = field(default_factory=dict)
    generations: dict[str, GenerationAccount] = field(default_factory=dict)
    first_record_of: dict[str, int] = field(default_factory=dict)
    unproven_lines: int = 0
    unproven_bytes: int = 0
    empty_records: int = 0

    def add(self, source: LineSource, value: bytes, record_index: int) -> None:
        """Count a value."""
        self.values.setdefault(source, []).append(value)
        self.record_indexes.setdefault(source, []).append(record_index)


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
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        if value is None:
            admission.empty_records += 1
            continue
        identity = decode_key(key)
        if identity is None:
            admission.unproven_lines += value.count(b"\n") + 1
            admission.unproven_bytes += len(value) + 1
            admission.add(unidentified, value, index)
        else:
            _admit_identified(admission, identity, value, index, counted_until)
    return admission


def _admit_identified(
    admission: Admission,
    identity: RecordIdentity,
    value: bytes,
    index: int,
    counted_until: Mapping[str, int],
) -> None:
    account = admission.generations.get(identity.generation)
    if account is None:
        account = _open_account(identity, counted_until)
        admission.generations[identity.generation] = account
        admission.first_record_of[identity.generation] = index
    start, end = identity.byte_offset, identity.end_offset(len(value))
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
    source = LineSource(identity.service, identity.vhost, identity.format_id)
    admission.add(source, value, index)


def _open_account(identity: RecordIdentity, counted_until: Mapping[str, int]) -> GenerationAccount:
    start = counted_until.get(identity.generation, identity.byte_offset)
    return GenerationAccount(
        generation=identity.generation,
        service=identity.service,
        host=identity.host,
        path="",
        first_offset=start,
        end_offset=start,
    )
