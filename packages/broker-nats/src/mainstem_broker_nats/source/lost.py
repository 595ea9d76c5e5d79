"""Rows of the ingress log that stand for messages of core NATS which did not come."""

from __future__ import annotations

import time

from mainstem_ingress import Message, lost_header

#: The header of such a row; no message may have it.
HEADER = "nats.lost"


def lost(origin: str, count: int | None, reason: str, first: str = "", last: str = "") -> Message:
    """Return what stands in the log for messages that did not come.

    Args:
        origin: the subject, as far as it is known.
        count: how many they were; None where nobody knows.
        reason: why they are lost.
        first: the first of them, where they have numbers.
        last: the last of them.
    """
    header = lost_header(HEADER, reason, count=count, first=first, last=last)
    return Message(None, None, [header], time.time_ns() // 1000, origin)
