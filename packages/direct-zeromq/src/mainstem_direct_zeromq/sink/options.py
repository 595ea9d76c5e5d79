"""The options of the sink `zeromq`."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from mainstem import PositiveDuration, option
from pydantic import field_validator

from mainstem_direct_zeromq.connection import LinkOptions


class ZeroMQSinkOptions(LinkOptions):
    """Options of the sink `zeromq`."""

    socket: Literal["push", "pub"] = option(
        "push",
        description="The kind of socket: `push` shares messages among PULL peers, `pub` gives each to "
        "every SUB peer that subscribes to it.",
    )
    topic: str | None = option(None, description="The topic of all messages.", example="weather")
    topic_from: str = option(
        "origin",
        min_length=1,
        description="The column that holds each message's topic, when `topic` is left out.",
    )
    partitions: int | None = option(
        None,
        gt=0,
        description="How many sockets send in parallel at most; as many as the batch has partitions "
        "when left out, and one of those that bind.",
    )
    high_water_mark: int = option(
        1000,
        gt=0,
        le=10_000_000,
        description="How many messages for each peer wait in memory at most; then the batch waits. A "
        "connection that breaks loses them.",
    )
    when_full: Literal["wait", "drop"] = option(
        "wait",
        description="What a `pub` socket does when a subscriber is too slow: `wait` for it, or `drop` "
        "what that subscriber has no room for, as PUB sockets do.",
    )
    subscriptions: int = option(
        1,
        ge=0,
        description="How many subscriptions a `pub` socket waits for before its first message: what is "
        "sent before a subscriber is there is lost. Each socket is new with each batch.",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to wait for a peer that takes a message, and at a batch's end for all to "
        "have gone out, before the batch fails.",
    )

    @field_validator("give_up")
    @classmethod
    def _some_time(cls, value: timedelta) -> timedelta:
        if not timedelta(milliseconds=10) <= value <= timedelta(days=1):
            raise ValueError("expected 10 milliseconds to a day")
        return value
