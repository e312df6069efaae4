"""What can end or delay the job.

StreamError
├── KafkaUnavailable   the broker does not answer: wait and try again
├── RangeNotReadable   records of a fixed range are missing: stop, or skip if the operator chose so
├── UnknownFormat      a record names a log format that nobody defined: stop, an operator must add it
├── TaskFailed         a task met what nobody expected, in every attempt: stop
├── TopicMissing       the topic does not exist: stop
├── JavaUnusable       no Java, or too old for Spark: stop
└── LedgerError        the ledger cannot be read or written: stop, nothing is committed
"""

from __future__ import annotations


class StreamError(Exception):
    """Base of everything below; its text is for the operator."""


class KafkaUnavailable(StreamError):
    """The broker did not answer in time."""


class RangeNotReadable(StreamError):
    """A record that must be there is not."""


class UnknownFormat(StreamError):
    """A record's format id has no definition."""


class TaskFailed(StreamError):
    """A task met an unexpected error; names the range, never the log text in it."""


class TopicMissing(StreamError):
    """The topic does not exist."""


class JavaUnusable(StreamError):
    """There is no Java that Spark can run on."""


class LedgerError(StreamError):
    """The ledger cannot be read or written."""
