"""Join the accounts of a range that was read in parts, exactly as if one task had read it.

Pure. A part cannot know where the parts before it left a file, so it counts from where committed batches left it, or
from its own first record. That is the same, but for the gap before its first counted record, unless this record
starts below what the parts before it had counted: a re-send across the cut. Then the part does not fit and is read
again, knowing the ends before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from streaming.completeness import GenerationAccount

Accounts = Sequence[GenerationAccount]


@dataclass(frozen=True, slots=True)
class Misfit:
    """A part that must be read again, and up to which byte each file was counted before it."""

    part: int
    ends: dict[str, int]


def first_misfit(parts: Sequence[Accounts]) -> Misfit | None:
    """The first part that holds a re-send of an earlier one; None where all parts fit."""
    ends: dict[str, int] = {}
    for index, part in enumerate(parts):
        if not all(_fits(account, ends) for account in part):
            return Misfit(index, ends)
        ends |= {one.generation: _end(one, ends) for one in part}
    return None


def join_accounts(parts: Sequence[Accounts]) -> list[GenerationAccount]:
    """The accounts of fitting parts, given in offset order, as one set."""
    joined: dict[str, GenerationAccount] = {}
    for part in parts:
        for account in part:
            before = joined.get(account.generation)
            joined[account.generation] = (
                replace(account) if before is None else _joined(before, account)
            )
    return list(joined.values())


def _fits(account: GenerationAccount, ends: Mapping[str, int]) -> bool:
    end = ends.get(account.generation, account.first_offset)
    return (
        end == account.first_offset
        or account.first_counted is None  # all of it was counted by committed batches
        or account.first_counted >= end
    )


def _end(account: GenerationAccount, ends: Mapping[str, int]) -> int:
    if account.first_counted is None:
        return ends.get(account.generation, account.end_offset)
    return account.end_offset


def _joined(before: GenerationAccount, account: GenerationAccount) -> GenerationAccount:
    resent = before.resent_lines + account.resent_lines
    if account.first_counted is None:
        return replace(before, resent_lines=resent)
    # The part measured its first gap from `first_offset`; it really began where the parts before it ended.
    gap = account.gap_bytes + account.first_offset - before.end_offset
    first = before.first_counted
    return replace(
        before,
        end_offset=account.end_offset,
        lines=before.lines + account.lines,
        gap_bytes=before.gap_bytes + gap,
        resent_lines=resent,
        first_counted=account.first_counted if first is None else first,
    )
