"""The ingress log: makes a log of messages that are pushed, for authors of sources.

An author writes a `Receiver` (connect, take, acknowledge) and an `IngressSource` that names it.
"""

from __future__ import annotations

from mainstem_ingress.errors import LogError
from mainstem_ingress.losses import LOST_MESSAGES, lost_header, split_lost
from mainstem_ingress.messages import Message, Values
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.receiver import Receiver
from mainstem_ingress.source import IngressSource

__all__ = [
    "LOST_MESSAGES",
    "IngressOptions",
    "IngressSource",
    "LogError",
    "Message",
    "Receiver",
    "Values",
    "lost_header",
    "split_lost",
]
