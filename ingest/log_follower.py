"""Every configured path as one endless source of records, across rotation and restarts.

I/O. In: sources and the positions of the last run. Out: records in file order, and the generations
to remember. Promise: a file once opened is read to its end, wherever it is moved; trouble with one
file never stops the others.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.cut_records import CutLimits
from ingest.file_identity import (
    Change,
    FileFacts,
    Mark,
    generation_id,
    is_beyond_head,
    is_compressed,
    mark,
    unused_generation_id,
)
from ingest.followed_file import FollowedFile
from ingest.generation import Generation, LogRecord, Origin
from ingest.log_directory import FoundName, find_names, folder_times
from ingest.log_file import LogFile
from ingest.position_file import StoredPositions
from ingest.settings import ShipSource

MAX_REMEMBERED_GENERATIONS = 2_000
# File times come from a coarse clock that runs behind the one we read.
_CLOCK_GRAIN_SECONDS = 0.1
_log = logging.getLogger("ship")


@dataclass(frozen=True, slots=True)
class FollowRules:
    """How files are followed."""

    host: str
    limits: CutLimits
    start_at_end: bool = False
    scan_seconds: float = 0.5
    rotated_quiet_seconds: float = 5.0
    chunk_bytes: int = 1_048_576
    max_open_files: int = 1_000


class LogFollower:
    """Follows the files of all sources. `look` finds them, `read` takes what they hold."""

    def __init__(
        self, sources: Sequence[ShipSource], rules: FollowRules, stored: StoredPositions | None
    ) -> None:
        self._sources = sources
        self._rules = rules
        self._stored_scan = stored.scanned_at if stored else None
        self._generations = {g.id: g for g in stored.generations} if stored else {}
        self._files: dict[tuple[int, int], FollowedFile] = {}
        self._has_more = False
        self._is_first_look = True
        self._scanned_at = 0.0
        self._next_scan = 0.0
        self._folder_times: dict[str, int] = {}
        self._settled: dict[str, FileFacts] = {}
        self._ignored: set[tuple[int, int]] = set()
        self._troubles: dict[str, str] = {}

    @property
    def generations(self) -> Iterable[Generation]:
        """Everything to remember for the next start."""
        return self._generations.values()

    @property
    def scanned_at(self) -> float:
        """Wall-clock time up to which every path was looked at."""
        return self._scanned_at

    @property
    def files(self) -> Iterable[FollowedFile]:
        """The files that are open now."""
        return self._files.values()

    def close(self) -> None:
        """Give every descriptor back."""
        for file in self._files.values():
            file.log.close()
        self._files.clear()

    def look(self, now: float, wall: float) -> None:
        """Notice new and vanished names: at once when a folder changed, or `scan_seconds` on."""
        times = folder_times(self._sources)
        if times == self._folder_times and now < self._next_scan:
            return
        self._folder_times = times
        self._next_scan = now + self._rules.scan_seconds
        self._report_missing_folders(times)
        self._scan(now)
        self._scanned_at = min([wall, *self._unidentified_times()])
        self._is_first_look = False
        self._prune()

    def read(self, now: float) -> Iterator[list[LogRecord]]:
        """One pass over the files, at most a chunk of each; it may be cut short without loss."""
        self._has_more, has_more = True, False
        for key, file in list(self._files.items()):
            # Whoever was served goes to the end of the queue: a busy file cannot starve the others.
            self._files[key] = self._files.pop(key)
            try:
                records = self._read(file, now)
            except OSError as error:
                self._trouble(file.path, "log file cannot be read", error)
                continue
            has_more |= file.generation is not None and file.uncut.read_until < file.facts.size
            if records:
                yield records
        self._has_more = has_more

    def has_more(self) -> bool:
        """Whether the last pass left bytes for the next one."""
        return self._has_more

    def _scan(self, now: float) -> None:
        names = find_names(self._sources)
        seen: set[tuple[int, int]] = set()
        for name in names:
            if self._is_first_look and self._is_old_rotation(name):
                self._ignored.add(name.facts.key)
            file = self._files.get(name.facts.key) or self._consider(name, now)
            if file is not None and name.facts.key not in seen:
                file.is_current, file.has_rotated_name = name.is_current, name.is_rotated_name
                seen.add(name.facts.key)
        for key, file in self._files.items():
            file.is_current = file.is_current and key in seen
        self._ignored &= {name.facts.key for name in names}
        self._settled = {n.path: self._settled[n.path] for n in names if n.path in self._settled}

    def _is_old_rotation(self, name: FoundName) -> bool:
        """Whether a rotated file was there before us: none of ours, unless we know it."""
        if name.is_current:
            return False
        if self._stored_scan is None:
            return True
        return name.facts.modified_ns < (self._stored_scan - _CLOCK_GRAIN_SECONDS) * 1e9

    def _consider(self, name: FoundName, now: float) -> FollowedFile | None:
        """Open a name we do not follow, unless it was judged before and did not change since."""
        if self._settled.get(name.path) == name.facts:
            return None
        if is_compressed(name.path):
            self._settled[name.path] = name.facts
            return None
        file = self._open(name, now)
        if file is None or file.facts.key in self._files:
            if file is not None:
                file.log.close()
            return None
        self._files[file.facts.key] = file
        try:
            self._identify(file, is_whole=False)
        except OSError as error:
            self._trouble(name.path, "log file cannot be read", error)
            self._close(file)
        return self._files.get(file.facts.key)

    def _open(self, name: FoundName, now: float) -> FollowedFile | None:
        try:
            log = self._open_making_room(Path(name.path))
        except FileNotFoundError:
            self._next_scan = now  # Renamed while we looked: look again at once.
            return None
        except OSError as error:
            # Out of descriptors is one trouble, not one for each file that has to wait.
            place = "all sources" if error.errno == errno.EMFILE else name.path
            self._trouble(place, "log file cannot be opened", error)
            return None
        if self._troubles.pop(name.path, None):
            _log.info("log file can be opened again", extra={"path": name.path})
        source = name.source
        return FollowedFile(
            log=log,
            origin=Origin(source.service, self._rules.host, source.vhost, source.format),
            path=name.path,
            facts=log.facts(),
            quiet_since=now,
            is_current=name.is_current,
            has_rotated_name=name.is_rotated_name,
        )

    def _open_making_room(self, path: Path) -> LogFile:
        """Open `path`; at the limit, the file quiet for longest waits closed until it changes."""
        if len(self._files) >= self._rules.max_open_files:
            idle = [file for file in self._files.values() if file.is_caught_up and file.generation]
            if not idle:
                raise OSError(errno.EMFILE, "too many files at once: raise the limit (ulimit -n)")
            self._settle(min(idle, key=lambda file: file.quiet_since))
        return LogFile.open(path)

    def _identify(self, file: FollowedFile, *, is_whole: bool) -> None:
        """Find out which generation the content is: one we know, a copy of one, or a new one."""
        line = file.head(is_whole=is_whole)
        if line is None:
            if not self._may_be_new(file):
                self._settle(file)
            return
        head = mark(line, 0)
        alike = [g for g in self._generations.values() if self._may_be(file, g, head)]
        live = {f.generation.id: f for f in self._files.values() if f.generation}
        resting = [g for g in alike if g.id not in live]
        if not all(g.position.is_settled for g in resting):
            return  # Records of a look-alike are still on their way: decide when they have arrived.
        if not all(live[g.id].is_intact() for g in alike if g.id in live):
            return  # A look-alike was truncated just now: decide when that was noticed.
        known = next((g for g in resting if self._continues(file, g)), None)
        if known is not None:
            self._resume(file, known)
        elif any(self._is_copy(file, g, live.get(g.id)) for g in alike):
            self._ignore(file, "copy of a log, not shipped")
        elif self._may_be_new(file):
            self._begin(file, line, head)
        else:
            self._settle(file)

    def _may_be(self, file: FollowedFile, generation: Generation, head: Mark) -> bool:
        if generation.head == head:
            return True
        return generation.is_same_file(file.facts) and file.log.carries(generation.head)

    def _continues(self, file: FollowedFile, generation: Generation) -> bool:
        """The same physical file, or the same bytes moved: a copy that outlived its original."""
        if not file.starts_like(generation):
            return False
        confirmed = generation.position.confirmed
        return generation.is_same_file(file.facts) or is_beyond_head(generation.head, confirmed)

    def _is_copy(
        self, file: FollowedFile, generation: Generation, original: FollowedFile | None
    ) -> bool:
        """Copying rotation leaves a second file with bytes that were shipped from the first."""
        if original is not None:
            return file.has_same_bytes_as(original, generation.head)
        return (
            file.has_rotated_name
            and file.path.startswith(generation.path)
            and not generation.is_same_file(file.facts)
            and file.facts.size < generation.position.confirmed
        )

    def _may_be_new(self, file: FollowedFile) -> bool:
        return file.is_current or (file.has_rotated_name and file.facts.key not in self._ignored)

    def _resume(self, file: FollowedFile, generation: Generation) -> None:
        generation.is_gone = False
        generation.device, generation.inode = file.facts.key
        file.begin(generation)
        if not file.is_current and file.is_caught_up:
            self._settle(file)
            return
        extra = {"path": file.path, "generation": generation.id, "position": file.uncut.start}
        _log.info("log file resumed", extra=extra)

    def _begin(self, file: FollowedFile, line: bytes, head: Mark) -> None:
        base = generation_id(self._rules.host, file.facts.device, file.facts.inode, line)
        skips = self._is_first_look and self._stored_scan is None and self._rules.start_at_end
        start = file.log.last_line_start(file.facts.size) if skips else 0
        generation = Generation(
            id=unused_generation_id(base, self._generations),
            path=file.path,
            device=file.facts.device,
            inode=file.facts.inode,
            head=head,
            position=file.position_at(start),
        )
        for earlier in self._generations.values():
            earlier.is_gone |= (earlier.device, earlier.inode) == file.facts.key
        self._generations[generation.id] = generation
        file.begin(generation)
        extra = {"path": file.path, "generation": generation.id, "position": start}
        _log.info("log file followed", extra=extra)

    def _read(self, file: FollowedFile, now: float) -> list[LogRecord]:
        change = file.look(now)
        is_over = (
            not file.is_current and now - file.quiet_since >= self._rules.rotated_quiet_seconds
        )
        if change is Change.SAME:
            return self._finish(file) if is_over else []
        if change is Change.TRUNCATED:
            return self._begin_anew(file)
        if file.generation is None:
            self._identify(file, is_whole=is_over)
        if file.generation is None or file.facts.key not in self._files:
            return []
        records = file.read(self._rules.chunk_bytes, self._rules.limits)
        return self._begin_anew(file) if records is None else records

    def _begin_anew(self, file: FollowedFile) -> list[LogRecord]:
        """The file was truncated or rewritten in place: new content begins at 0."""
        if file.generation is not None:
            file.generation.is_gone = True
            extra = {"path": file.path, "generation": file.generation.id, "size": file.facts.size}
            _log.info("log file truncated", extra=extra)
        self._settled.clear()  # A copy of the old content may now be all that is left of it.
        self._next_scan = 0.0
        return file.forget()

    def _finish(self, file: FollowedFile) -> list[LogRecord]:
        """A rotated file has been quiet for long enough: ship its open line and let it go."""
        last = file.last_line()
        _log.info("log file finished", extra={"path": file.path, "size": file.facts.size})
        self._settle(file)
        return last

    def _ignore(self, file: FollowedFile, event: str) -> None:
        _log.warning(event, extra={"path": file.path, "size": file.facts.size})
        self._settle(file)

    def _settle(self, file: FollowedFile) -> None:
        """Close a file and leave it alone until its facts change."""
        self._settled[file.path] = file.facts
        self._close(file)

    def _close(self, file: FollowedFile) -> None:
        facts = file.log.facts()
        if file.generation is not None and facts.links == 0:
            file.generation.is_gone = True
        file.log.close()
        del self._files[facts.key]

    def _unidentified_times(self) -> list[float]:
        """Last writes of files with bytes but no first line yet: a restart must find them."""
        return [
            file.facts.modified_ns / 1e9
            for file in self._files.values()
            if file.generation is None and file.facts.size
        ]

    def _prune(self) -> None:
        """Forget the oldest generations that are not followed, gone ones first."""
        excess = len(self._generations) - MAX_REMEMBERED_GENERATIONS
        if excess <= 0:
            return
        live = {file.generation.id for file in self._files.values() if file.generation}
        resting = [g for g in self._generations.values() if g.id not in live]
        resting = [g for g in resting if g.position.is_settled]
        for generation in sorted(resting, key=lambda g: not g.is_gone)[:excess]:
            del self._generations[generation.id]

    def _report_missing_folders(self, times: dict[str, int]) -> None:
        for folder, changed in times.items():
            if changed == 0:
                self._trouble(folder, "log folder is missing", OSError(0, "waiting for it"))
            elif self._troubles.pop(folder, None):
                _log.info("log folder is there", extra={"path": folder})

    def _trouble(self, path: str, event: str, error: OSError) -> None:
        """Report trouble with a path once, not on every look."""
        reason = error.strerror or str(error)
        if self._troubles.get(path) != reason:
            self._troubles[path] = reason
            _log.error(event, extra={"path": path, "reason": reason})
