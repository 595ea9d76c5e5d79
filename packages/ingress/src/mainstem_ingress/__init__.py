"""The ingress log: makes a log of messages that are pushed, for authors of sources.

An author writes a `Receiver` (connect, take, acknowledge) and an `IngressSource` that names it.
"""

from __future__ import annotations

from mainstem_ingress.errors import LogError
from mainstem_ingress.losses import loss_of, lost
from mainstem_ingress.messages import Columns, Message, Rows, Values
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.receiver import Receiver
from mainstem_ingress.sequences import Gap, NumberOptions, Sequences
from mainstem_ingress.source import IngressSource
from mainstem_ingress.tables import columns_of, no_row, row_of, struct_type

__all__ = [
    "Columns",
    "Gap",
    "IngressOptions",
    "IngressSource",
    "LogError",
    "Message",
    "NumberOptions",
    "Receiver",
    "Rows",
    "Sequences",
    "Values",
    "columns_of",
    "loss_of",
    "lost",
    "no_row",
    "row_of",
    "struct_type",
]
