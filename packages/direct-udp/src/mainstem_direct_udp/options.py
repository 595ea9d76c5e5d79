"""What the document says of the source."""

from __future__ import annotations

from typing import Literal, Self

from mainstem import PositiveDuration, option
from mainstem_egress import EgressOptions
from mainstem_ingress import IngressOptions, NumberOptions
from mainstem_ingress.datagrams import DatagramOptions, address_of
from mainstem_ingress.streams import ConnectionOptions
from pydantic import field_validator, model_validator


class SequenceOptions(NumberOptions):
    """Options of `sequence`."""

    per: Literal["sender", "feed"] = option(
        "sender",
        description="Whose count it is: each sender's own (address and port), or one of all datagrams.",
    )
    copies_within: PositiveDuration | None = option(
        None,
        description="Several feeds (groups A and B) carry the same messages: the first copy of each "
        "counts, and a number is reported as missing when none has brought it within this time. With "
        "`per: feed`.",
        example="1 second",
    )
    remember: int = option(
        1000,
        gt=0,
        advanced=True,
        description="How many counts are remembered; the one that was silent for longest is forgotten.",
    )

    @model_validator(mode="after")
    def _of_all(self) -> Self:
        if self.copies_within is not None and self.per != "feed":
            raise ValueError("copies_within goes with `per: feed`")
        return self


class PortOptions(DatagramOptions, IngressOptions):
    """Options of every source of datagrams."""

    max_datagram: int = option(
        65_535,
        gt=0,
        le=65_535,
        advanced=True,
        description="A larger datagram is refused, in bytes.",
    )

    @model_validator(mode="after")
    def _once(self) -> Self:
        if self.receivers > 1 and self.path is not None:
            raise ValueError("expected one of `receivers`: only a port can be shared")
        if self.receivers > 1 and self.groups:
            raise ValueError("expected one of `receivers`: each would be given every datagram")
        return self


class UDPSourceOptions(PortOptions):
    """Options of the source `udp`."""

    sequence: SequenceOptions | None = option(
        None,
        description="Where in each datagram its number is: numbers that do not come are reported in the "
        "output `lost`.",
    )

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if self.receivers > 1 and self.sequence is not None:
            raise ValueError("expected one of `receivers`: counts would have gaps")
        return self


class UDPOptions(EgressOptions):
    """Options of the sink `udp`."""

    to: str = option(
        description="Address and port, or those of a multicast group, that datagrams are sent to.",
        example="239.1.2.3:5000",
    )
    interface: str | None = option(
        None,
        description="The interface by which a group is sent to: its address (IPv4) or its name; the "
        "system's choice when left out.",
    )
    hops: int = option(
        1, ge=0, le=255, description="How many routers a multicast datagram may pass, and one more."
    )
    pace: int | None = option(
        None,
        gt=0,
        description="How many datagrams a second each connection sends at most, so that the other side "
        "can follow; as fast as it goes when left out.",
        example=20_000,
    )

    @field_validator("to")
    @classmethod
    def _is_address(cls, value: str) -> str:
        if address_of(value)[1] == 0:
            raise ValueError("expected a port")
        return value


class StatsDSourceOptions(PortOptions):
    """Options of the source `statsd`."""

    stream: ConnectionOptions | None = option(
        None,
        description="That lines come over connections to `listen` (TCP, or a Unix stream) in place of "
        "datagrams; `{}` is enough. `framing: length` with little-endian lengths is what clients of "
        "DataDog send over a Unix stream.",
        example={"connections": 200},
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        of_datagrams = {"groups", "receive_buffer", "max_datagram"} & self.model_fields_set
        if self.stream is not None and of_datagrams:
            raise ValueError(f"`{min(of_datagrams)}` is of datagrams, and there is `stream`")
        return self
