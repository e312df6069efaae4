"""Find a Java that can run Spark and the embedded servers: `JAVA_HOME` first, then PATH. I/O: runs `java -version`."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from streaming.errors import JavaUnusable

OLDEST_VERSION = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_REMEDY = "install it (for example `apt-get install openjdk-17-jre-headless`) or set JAVA_HOME"


def find_java(environ: Mapping[str, str]) -> Path:
    """The `java` program to use, at least Java 17, or `JavaUnusable` with what was found."""
    java = _candidate(environ)
    version = major_version(_version_text(java))
    if version is None or version < OLDEST_VERSION:
        found = "an unknown version" if version is None else str(version)
        message = f"Java {OLDEST_VERSION} or newer is needed, found {found} at {java}: {_REMEDY}."
        raise JavaUnusable(message)
    return java


def major_version(version_text: str) -> int | None:
    """The major version in what `java -version` prints (`1.8.0` is 8), or None."""
    match = _VERSION.search(version_text)
    return int(match.group(1)) if match else None


def _candidate(environ: Mapping[str, str]) -> Path:
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if java.is_file():
            return java
        message = f"JAVA_HOME is {home}, but there is no bin/java in it: correct it, or unset it."
        raise JavaUnusable(message)
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path is None:
        message = f"Java {OLDEST_VERSION} or newer is needed, found none: {_REMEDY}."
        raise JavaUnusable(message)
    return Path(on_path)


def _version_text(java: Path) -> str:
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"{java} cannot be run ({error}): {_REMEDY}."
        raise JavaUnusable(message) from error
    return done.stderr + done.stdout
