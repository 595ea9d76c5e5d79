"""Rows of the log that stand for messages which did not come, and what becomes of them."""

from __future__ import annotations

import json
from typing import Any

from mainstem.losses import lost_text

from mainstem_ingress.messages import Message

#: Begins what such a row has in place of a reason to refuse it; the rest is JSON.
MARK = "\x1elost "


def lost(
    reason: str,
    *,
    origin: str = "",
    count: int | None = None,
    first: str = "",
    last: str = "",
    extra: tuple[Any, ...] = (),
) -> Message:
    """Return what a receiver gives for messages that did not come; it comes out of `lost`.

    The source says so by `IngressSource.loses`.

    Args:
        reason: why they are lost.
        origin: where they would have come from, as far as it is known.
        count: how many they were; None where nobody knows.
        first, last: the first and the last of them, where they have numbers.
        extra: as a message's.
    """
    text = MARK + lost_text(reason, count=count, first=first, last=last)
    return Message(None, origin=origin, refused=text, extra=extra)


def loss_of(message: Message) -> dict[str, Any] | None:
    """Return what `lost` has made a message of: from, to, count, reason; None of any other message."""
    if message.refused is None or not message.refused.startswith(MARK):
        return None
    found: dict[str, Any] = json.loads(message.refused.removeprefix(MARK))
    return found
