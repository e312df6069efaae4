"""The Java of the embedded servers: the same one that Spark runs on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deploy.local import stack_errors
from streaming import java
from streaming.errors import JavaUnusable


def find_java(environ: Mapping[str, str]) -> Path:
    """The `java` program to use, or `stack_errors.JavaUnusable` with what was found."""
    try:
        return java.find_java(environ)
    except JavaUnusable as error:
        raise stack_errors.JavaUnusable(str(error)) from error
