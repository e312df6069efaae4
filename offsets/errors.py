"""What can go wrong with offsets.

OffsetsError
├── StoreUnavailable    ZooKeeper does not answer: wait and try again
├── LeadershipLost      another driver may lead now: stop writing, stand by
├── OffsetConflict      somebody else wrote what only we may write: stop
├── StoredStateInvalid  a node holds something we cannot read: stop, an operator must look
├── StartRefused        the start that was asked for does not fit what Kafka has: stop, mend the setting
└── DataLoss            Kafka no longer has what comes next: stop, or skip if the operator chose so
    └── NothingToRead   everything that was read is gone: wait until it is created again
"""

from __future__ import annotations


class OffsetsError(Exception):
    """Base of everything below; its text is for the operator."""


class StoreUnavailable(OffsetsError):
    """ZooKeeper did not answer in time."""


class LeadershipLost(OffsetsError):
    """This driver must not write any more."""


class OffsetConflict(OffsetsError):
    """The stored state changed under the leader."""


class StoredStateInvalid(OffsetsError):
    """A stored node is corrupt, too large or of a future version."""


class StartRefused(OffsetsError):
    """The offsets that were asked for do not fit the partitions that exist."""


class DataLoss(OffsetsError):
    """Records that were never read are gone from Kafka."""


class NothingToRead(DataLoss):
    """No topic or partition that was read before exists any more, and none that could be read instead."""
