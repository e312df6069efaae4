from __future__ import annotations

from pathlib import Path

import pytest

from streaming.errors import JavaUnusable
from streaming.java import find_java, major_version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('openjdk version "17.0.15" 2025-04-15', 17, id="openjdk 17"),
        pytest.param('openjdk version "21" 2023-09-19', 21, id="a first release has no dots"),
        pytest.param('java version "1.8.0_392"', 8, id="java 8 calls itself 1.8"),
        pytest.param("command not found", None, id="no version at all"),
    ],
)
def test_major_version_is_read_from_what_java_prints(text: str, expected: int | None) -> None:
    assert major_version(text) == expected


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    java = a_java(tmp_path / "home" / "bin", "17.0.1")
    a_java(tmp_path / "path", "21.0.1")

    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")})

    assert found == java


def test_old_java_is_refused_with_its_version_place_and_remedy(tmp_path: Path) -> None:
    java = a_java(tmp_path, "11.0.2")

    with pytest.raises(JavaUnusable) as refused:
        find_java({"PATH": str(tmp_path)})

    assert f"Java 17 or newer is needed, found 11 at {java}: install it" in str(refused.value)
    assert "set JAVA_HOME" in str(refused.value)


def test_missing_java_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(JavaUnusable, match="found none: install it"):
        find_java({"PATH": str(tmp_path)})


def test_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaUnusable, match="no bin/java in it"):
        find_java({"JAVA_HOME": str(tmp_path)})


def a_java(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java
