"""Files of the ledger on a local folder or on a remote filesystem. I/O.

Local files are on the disk (fsync) before `write` returns: the offsets that point at them may be committed right after.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from pyarrow import fs

from streaming.errors import LedgerError


class LedgerFiles(Protocol):
    """A tree of small immutable files, named by `/`-separated paths below the ledger's root."""

    def write(self, name: str, data: bytes) -> None:
        """Store a file, replacing an earlier one of that name."""

    def read(self, name: str) -> bytes:
        """The content of a file."""

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder, sorted; empty when there is no such folder."""

    def remove(self, name: str) -> None:
        """Delete a file."""


def open_ledger_files(address: str) -> LedgerFiles:
    """The files at a local path, or at an hdfs://, s3:// or gs:// address."""
    return RemoteFiles(address) if "://" in address else LocalFiles(Path(address))


class LocalFiles:
    """Files below a local folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, name: str, data: bytes) -> None:
        """Write beside the target, force to disk, rename: a reader never sees half a file."""
        target = self._root / name
        unfinished = target.with_name(f".{target.name}.unfinished")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(target)
            self._sync_folder(target.parent)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            message = (
                f"Ledger file {target} cannot be written ({error.strerror}): nothing was committed. "
                "Make room there, or give this user the right to write."
            )
            raise LedgerError(message) from error

    def read(self, name: str) -> bytes:
        """The content of a file."""
        try:
            return (self._root / name).read_bytes()
        except OSError as error:
            message = f"Ledger file {self._root / name} cannot be read ({error.strerror}): restore it from a copy."
            raise LedgerError(message) from error

    def names(self, folder: str) -> list[str]:
        """Names of the finished files in a folder."""
        path = self._root / folder
        if not path.is_dir():
            return []
        return sorted(entry.name for entry in os.scandir(path) if not entry.name.startswith("."))

    def remove(self, name: str) -> None:
        """Delete a file; it may be gone already."""
        (self._root / name).unlink(missing_ok=True)

    @staticmethod
    def _sync_folder(folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class RemoteFiles:
    """Files below an address that Arrow's filesystems understand."""

    def __init__(self, address: str) -> None:
        try:
            self._filesystem, self._root = fs.FileSystem.from_uri(address)
        except (OSError, ValueError) as error:
            message = f"stream.ledger = {address!r} cannot be opened ({error}): check the address and its credentials."
            raise LedgerError(message) from error

    def write(self, name: str, data: bytes) -> None:
        """Store a file; object stores and HDFS show it only when it is whole."""
        path = f"{self._root}/{name}"
        try:
            self._filesystem.create_dir(path.rsplit("/", 1)[0], recursive=True)
            with self._filesystem.open_output_stream(path) as stream:
                stream.write(data)
        except OSError as error:
            message = f"Ledger file {path} cannot be written ({error}): nothing was committed."
            raise LedgerError(message) from error

    def read(self, name: str) -> bytes:
        """The content of a file."""
        try:
            with self._filesystem.open_input_stream(f"{self._root}/{name}") as stream:
                return bytes(stream.read())
        except OSError as error:
            message = f"Ledger file {self._root}/{name} cannot be read ({error})."
            raise LedgerError(message) from error

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder."""
        selector = fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        return sorted(info.base_name for info in self._filesystem.get_file_info(selector))

    def remove(self, name: str) -> None:
        """Delete a file; it may be gone already."""
        try:
            self._filesystem.delete_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return
