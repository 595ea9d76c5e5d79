"""What the document says of the source."""

from __future__ import annotations

from typing import Literal

from mainstem import option
from mainstem_ingress import IngressOptions, NumberOptions
from mainstem_ingress.datagrams import DatagramOptions
from pydantic import model_validator


class SequenceOptions(NumberOptions):
    """Options of `sequence`."""

    per: Literal["sender", "feed"] = option(
        "sender",
        description="Whose count it is: each sender's own (address and port), or one of all datagrams.",
    )
    remember: int = option(
        1000,
        gt=0,
        advanced=True,
        description="How many counts are remembered; the one that was silent for longest is forgotten.",
    )


class UDPSourceOptions(DatagramOptions, IngressOptions):
    """Options of the source `udp`."""

    max_datagram: int = option(
        65_535,
        gt=0,
        le=65_535,
        advanced=True,
        description="A larger datagram is refused, in bytes.",
    )
    sequence: SequenceOptions | None = option(
        None,
        description="Where in each datagram its number is: numbers that do not come are reported in the "
        "output `lost`.",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> UDPSourceOptions:
        if self.receivers > 1 and (self.groups or self.sequence is not None):
            why = "each would be given every datagram" if self.groups else "counts would have gaps"
            raise ValueError(f"expected one of `receivers`: {why}")
        return self
