"""What the document says of MoldUDP64."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Self

from mainstem import PositiveDuration, option
from mainstem_ingress import IngressOptions
from mainstem_ingress.datagrams import DatagramOptions, address_of
from pydantic import field_validator, model_validator


class MoldUDP64SourceOptions(IngressOptions):
    """Options of the source `moldudp64`."""

    feeds: list[DatagramOptions] = option(
        min_length=1,
        description="Where the packets come to; several feeds (A and B) carry the same messages, of each "
        "of which the first copy counts.",
        example=[{"listen": "0.0.0.0:26400", "groups": ["233.54.12.111"]}],
    )
    servers: list[str] = option(
        list,
        description="Re-request servers, `address:port`, that are asked in turn for what is missing; "
        "without one a gap is told once it has not been filled by another feed in time.",
        example=["10.0.0.9:26401"],
    )
    start: Literal["earliest", "latest"] = option(
        "latest",
        description="Where a new log begins in a session: `earliest`, with its first message, which is "
        "asked for; `latest`, with what comes.",
    )
    recover_within: PositiveDuration = option(
        timedelta(seconds=10),
        description="How long a message is waited for, and asked for, before it is reported as lost.",
        advanced=True,
    )
    ask_every: PositiveDuration = option(
        timedelta(milliseconds=100),
        advanced=True,
        description="How often what is missing is asked for again, at the next server.",
    )
    ask_most: int = option(
        1000,
        gt=0,
        lt=0xFFFF,
        advanced=True,
        description="How many messages one request asks for at most.",
    )
    ask_at_once: int = option(
        20,
        gt=0,
        advanced=True,
        description="How many requests are sent at a time at most.",
    )
    hold: int = option(
        1_000_000,
        gt=0,
        advanced=True,
        description="How many messages may wait for one that is missing; beyond that it is given up.",
    )

    @field_validator("servers")
    @classmethod
    def _are_addresses(cls, value: list[str]) -> list[str]:
        for each in value:
            address_of(each)
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.receivers > 1:
            raise ValueError("expected one of `receivers`: it puts all messages in order")
        if self.start == "earliest" and not self.servers:
            raise ValueError("`start: earliest` needs `servers` to ask")
        return self
