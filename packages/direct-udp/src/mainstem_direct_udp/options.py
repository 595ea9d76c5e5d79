"""What the document says of the source."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal

from mainstem import Size, option
from mainstem_ingress import IngressOptions, NumberOptions
from pydantic import field_validator, model_validator

_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):(\d{1,5})", re.ASCII)

Address = IPv4Address | IPv6Address


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


class UDPSourceOptions(IngressOptions):
    """Options of the source `udp`."""

    listen: str = option(
        description="Address and port that datagrams are sent to; `0.0.0.0`, or `[::]`, is all addresses "
        "of this machine.",
        example="0.0.0.0:8125",
    )
    groups: list[str] = option(
        list, description="Multicast groups that are joined.", example=["239.1.2.3"]
    )
    sources: list[str] = option(
        list,
        description="The senders from which datagrams of the groups are taken (source-specific "
        "multicast, IPv4); from any when left out.",
        example=["10.0.0.7"],
    )
    interface: str | None = option(
        None,
        description="The interface on which groups are joined: its address (IPv4) or its name; the "
        "system's choice when left out.",
        example="10.0.0.1",
    )
    receive_buffer: Size | None = option(
        None,
        gt=0,
        description="The kernel's buffer for what was not read yet; the run ends where it gives less. "
        "The system's own when left out, which is small.",
        example="8 MiB",
    )
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

    @field_validator("listen")
    @classmethod
    def _is_address(cls, value: str) -> str:
        _place(value)
        return value

    @field_validator("groups")
    @classmethod
    def _are_groups(cls, value: list[str]) -> list[str]:
        for each in value:
            if not ip_address(each).is_multicast:
                raise ValueError(f"{each} is no multicast group (224.0.0.0/4, ff00::/8)")
        return value

    @field_validator("sources")
    @classmethod
    def _are_senders(cls, value: list[str]) -> list[str]:
        for each in value:
            IPv4Address(each)
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> UDPSourceOptions:
        host, _ = self.place()
        if any(ip_address(group).version != host.version for group in self.groups):
            raise ValueError("`groups` and `listen` are of one version of IP")
        if self.sources and (not self.groups or host.version == 6):
            raise ValueError("`sources` are the senders of `groups` of IPv4")
        if self.interface is not None and not self.groups:
            raise ValueError("`interface` is where `groups` are joined")
        if self.sources and self.interface and not self.interface[0].isdigit():
            raise ValueError("`interface` is an address where there are `sources`, not a name")
        if self.receivers > 1 and (self.groups or self.sequence is not None):
            why = "each would be given every datagram" if self.groups else "counts would have gaps"
            raise ValueError(f"expected one of `receivers`: {why}")
        return self

    def place(self) -> tuple[Address, int]:
        """Return the address and the port."""
        return _place(self.listen)


def _place(text: str) -> tuple[Address, int]:
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 <= int(found[3]) <= 65_535:
        raise ValueError("expected address and port: 0.0.0.0:8125, [::]:8125")
    return ip_address(found[1] or found[2]), int(found[3])
