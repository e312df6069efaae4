"""The znode layout, in one place. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from offsets.offset_range import TopicPartition


@dataclass(frozen=True, slots=True)
class ZnodePaths:
    """Nodes of one pipeline below the configured root."""

    root: str
    job_name: str
    consumers_root: str = ""
    """Where lag tools look for offsets; empty means that they are not written there."""

    @property
    def pipeline(self) -> str:
        """Parent of everything about this pipeline."""
        return f"{self.root}/pipelines/{self.job_name}"

    @property
    def epoch(self) -> str:
        """Fencing epoch of the present leader."""
        return f"{self.pipeline}/epoch"

    @property
    def commit(self) -> str:
        """Offsets and ledger pointer of the last committed batch."""
        return f"{self.pipeline}/commit"

    @property
    def pending(self) -> str:
        """Input of the batch that was started last; empty when it was committed."""
        return f"{self.pipeline}/pending"

    @property
    def lock(self) -> str:
        """Contenders for leadership."""
        return f"{self.pipeline}/lock"

    @property
    def previous(self) -> str:
        """Commits that an operator replaced by hand."""
        return f"{self.pipeline}/previous"

    @property
    def resets(self) -> str:
        """What operators changed by hand, one node for each time."""
        return f"{self.pipeline}/resets"

    def classic_topic(self, topic: str) -> str:
        """Parent of a topic's offsets as lag tools look for them."""
        return f"{self.consumers_root}/{self.job_name}/offsets/{topic}"

    def classic_offset(self, partition: TopicPartition) -> str:
        """A partition's offset as lag tools look for it."""
        return f"{self.classic_topic(partition.topic)}/{partition.partition}"
