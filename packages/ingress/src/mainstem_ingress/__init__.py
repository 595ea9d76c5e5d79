"""The ingress log: makes a log of messages that are pushed, for authors of sources.

An author writes a `Receiver` (connect, take, acknowledge) and an `IngressSource` that names it.
"""

from __future__ import annotations

from mainstem_ingress.errors import LogError
from mainstem_ingress.losses import loss_of, lost
from mainstem_ingress.messages import Message, Values
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.receiver import Receiver
from mainstem_ingress.sequences import Gap, NumberOptions, Sequences
from mainstem_ingress.snapshots import Change, Changes, Given, Row, SnapshotThenLog, TablesAndLog
from mainstem_ingress.source import IngressSource
from mainstem_ingress.tables import no_row, row_of

__all__ = [
    "Change",
    "Changes",
    "Gap",
    "Given",
    "IngressOptions",
    "IngressSource",
    "LogError",
    "Message",
    "NumberOptions",
    "Receiver",
    "Row",
    "Sequences",
    "SnapshotThenLog",
    "TablesAndLog",
    "Values",
    "loss_of",
    "lost",
    "no_row",
    "row_of",
]
