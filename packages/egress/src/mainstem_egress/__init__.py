"""Sends messages and knows of each whether it was accepted, for authors of sinks.

An author writes a `Sender` (connect, send, what the answers mean, close) and an `EgressSink` that names
it.
"""

from __future__ import annotations

from mainstem_egress.dispatcher import Counts, Dispatcher, LaneDispatcher
from mainstem_egress.options import EgressOptions
from mainstem_egress.sender import Answer, Fate, MessageFault, OutMessage, Sendable, Sender
from mainstem_egress.sink import EgressSink, send
from mainstem_egress.unanswered import UnansweredSender, UnansweredSink

__all__ = [
    "Answer",
    "Counts",
    "Dispatcher",
    "EgressOptions",
    "EgressSink",
    "Fate",
    "LaneDispatcher",
    "MessageFault",
    "OutMessage",
    "Sendable",
    "Sender",
    "UnansweredSender",
    "UnansweredSink",
    "send",
]
