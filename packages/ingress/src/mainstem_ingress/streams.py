"""Streams of bytes over connections, for receivers: who connects to whom, and what is spoken."""

from __future__ import annotations

import re
import socket
from datetime import timedelta
from typing import NamedTuple, Self

from mainstem import HostTLSOptions, LocalPath, Options, PositiveDuration, option
from pydantic import field_validator, model_validator

from mainstem_ingress.framing import FramingOptions

_PLACE = re.compile(r"(?:\[(?P<six>[\da-fA-F:.]+)\]|(?P<host>[\w.-]+)):(?P<port>\d{1,5})", re.ASCII)
_UNIX = "unix:"


class Place(NamedTuple):
    """Where a socket is: host and port, or a path."""

    host: str
    port: int
    path: str = ""

    @property
    def address(self) -> str | tuple[str, int]:
        """What the system's calls are given."""
        return self.path or (self.host, self.port)

    @property
    def family(self) -> socket.AddressFamily:
        """The family of a socket that listens there."""
        if self.path:
            return socket.AF_UNIX
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET


def place_of(text: str) -> Place:
    """Return what an address says.

    Raises:
        ValueError: it is none.
    """
    if text.startswith(_UNIX) and len(text) > len(_UNIX):
        return Place("", 0, text.removeprefix(_UNIX))
    found = _PLACE.fullmatch(text)
    if found is None or int(found["port"]) >= 2**16:
        raise ValueError("expected host:port, [::1]:port or unix:/path")
    return Place(found["six"] or found["host"], int(found["port"]))


class AddressOptions(Options):
    """Who calls whom, and where."""

    listen: str | None = option(
        None,
        description="Where others connect to: `host:port` (`0.0.0.0:5140` is all addresses of this "
        "machine), or `unix:/path`.",
        example="0.0.0.0:5140",
    )
    connect: str | None = option(
        None, description="In place of `listen`: whom to connect to.", example="feed:7000"
    )

    @field_validator("listen", "connect")
    @classmethod
    def _are_places(cls, value: str | None) -> str | None:
        if value is not None:
            place_of(value)
        return value

    @property
    def place(self) -> Place:
        """The address, of whichever kind."""
        return place_of(self.listen or self.connect or "")


class ServerTLSOptions(Options):
    """Options of `certificates`."""

    certificate: LocalPath = option(description="The server's certificate (PEM).")
    key: LocalPath | None = option(
        None, description="The key (PEM) of `certificate`, when it is not in the same file."
    )
    client_ca: LocalPath | None = option(
        None,
        description="Certificates (PEM) that those of clients must be signed by; of any, or "
        "none, when left out.",
    )


class ConnectionOptions(FramingOptions):
    """Options of connections that others make."""

    certificates: ServerTLSOptions | None = option(
        None, description="What TLS is spoken with, where others connect to this (`listen`)."
    )
    connections: int = option(
        1000, gt=0, advanced=True, description="How many connections there may be at a time."
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How long making a connection may take, and its handshake.",
    )
    idle_timeout: PositiveDuration | None = option(
        None,
        advanced=True,
        description="A connection over which nothing has come for so long is ended: others have its "
        "place, and one that this makes (`connect`) is made again. Never when left out: then the system "
        "ends those whose other side is gone.",
    )


class StreamOptions(AddressOptions, ConnectionOptions):
    """Options of streams that come over connections, whoever makes them."""

    tls: HostTLSOptions | None = option(
        None,
        description="That TLS is spoken with whom this connects to (`connect`); `{}` is enough.",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if (self.listen is None) == (self.connect is None):
            raise ValueError("expected either listen or connect")
        if self.certificates is not None and self.listen is None:
            raise ValueError("certificates are of who listens; there is `tls`")
        if self.tls is not None and self.connect is None:
            raise ValueError("tls is of who connects; there are `certificates`")
        return self
