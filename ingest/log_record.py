"""The Kafka record contract: a byte range of one log file, and the identity that proves it.

Pure. The value is one or more complete lines, byte for byte, separated by newlines, without the last one's.
The key says where those bytes stood: `palisade1|service|host|vhost|format|generation|byte_offset|flags`.
A record at byte offset `o` with a value of `n` bytes is followed, in the same generation, by one at
`o + n + 1`. Two kinds of records say themselves where the next one begins (`truncated_end`): a line that was
cut at the cap, and the last line of a rotated file that never got its newline.
"""

from __future__ import annotations

from dataclasses import dataclass

KEY_VERSION = "palisade1"
PATH_HEADER = "path"
TRUNCATED_FLAG = "t"
_FIELD_COUNT = 8


@dataclass(frozen=True, slots=True)
class RecordIdentity:
    """Where the bytes of a record stood: one physical file (a generation) and the offset of the first byte.

    `truncated_end` is the byte offset of the next record, where the value's length does not tell it.
    """

    service: str
    host: str
    vhost: str
    format_id: str
    generation: str
    byte_offset: int
    truncated_end: int | None = None

    def end_offset(self, value_length: int) -> int:
        """Byte offset right after this record and its newline."""
        return (
            self.byte_offset + value_length + 1
            if self.truncated_end is None
            else self.truncated_end
        )


def encode_key(identity: RecordIdentity) -> bytes:
    """The record key that carries `identity`."""
    flags = "" if identity.truncated_end is None else f"{TRUNCATED_FLAG}{identity.truncated_end}"
    return "|".join(
        (
            KEY_VERSION,
            identity.service,
            identity.host,
            identity.vhost,
            identity.format_id,
            identity.generation,
            str(identity.byte_offset),
            flags,
        )
    ).encode("ascii")


def decode_key(key: bytes | None) -> RecordIdentity | None:
    """The identity in a key, or None for records that other shippers wrote."""
    if key is None or not key.startswith(b"palisade1|"):
        return None
    fields = key.decode("ascii", "replace").split("|")
    if len(fields) != _FIELD_COUNT or not fields[6].isdecimal():
        return None
    flags = fields[7]
    truncated_end = (
        int(flags[1:]) if flags[:1] == TRUNCATED_FLAG and flags[1:].isdecimal() else None
    )
    return RecordIdentity(
        service=fields[1],
        host=fields[2],
        vhost=fields[3],
        format_id=fields[4],
        generation=fields[5],
        byte_offset=int(fields[6]),
        truncated_end=truncated_end,
    )
