"""What can stop the shipper, each with a sentence that says what to do.

ShipError
├── BrokerUnreachableError     no broker answered when the shipper started
├── TopicMissingError          the topic does not exist and may not be created
├── StateInUseError            another shipper owns the state folder
├── PositionsUnreadableError   neither copy of the positions can be trusted
└── PositionsNotSavedError     the last positions could not be written when the shipper ended
"""

from __future__ import annotations


class ShipError(Exception):
    """The shipper cannot start or go on; the text names the cause, the values and the remedy."""


class BrokerUnreachableError(ShipError):
    """No broker answered in time when the shipper started."""


class TopicMissingError(ShipError):
    """The topic does not exist, and `kafka.create_topic` is off or creating it failed."""


class StateInUseError(ShipError):
    """Another process holds the lock of the state folder."""


class PositionsUnreadableError(ShipError):
    """No copy of the positions can be trusted; guessing would lose or repeat lines."""


class PositionsNotSavedError(ShipError):
    """The final positions could not be written; the next start sends some lines again."""
