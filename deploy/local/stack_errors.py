"""What can go wrong with the embedded stack, each with a sentence that says what to do.

StackError
├── ProgramMissing       a program is not on this machine
├── JavaUnusable         no Java, or too old
├── BrokerUnavailable    the Kafka broker could not be downloaded
├── ServerDidNotStart    a server ended or stayed silent
└── AlreadyRunning       another live run owns the folder
"""

from __future__ import annotations


class StackError(Exception):
    """Something in the embedded stack cannot be had; the text names the remedy."""


class ProgramMissing(StackError):
    """A program is not installed: `remedy` is how to get it, `loss` what is then not shown."""

    def __init__(self, program: str, remedy: str, loss: str) -> None:
        super().__init__(f"{program} is not on this machine: {remedy}. Without it: {loss}.")
        self.program = program
        self.remedy = remedy
        self.loss = loss


class JavaUnusable(StackError):
    """Java is missing or too old."""


class BrokerUnavailable(StackError):
    """The Kafka broker's jars could not be resolved."""


class ServerDidNotStart(StackError):
    """A server ended, or was not ready in time; the text ends with its last log lines."""

    def __init__(self, message: str, *, address_in_use: bool = False) -> None:
        super().__init__(message)
        self.address_in_use = address_in_use


class AlreadyRunning(StackError):
    """Another run that is alive uses the same folder."""
