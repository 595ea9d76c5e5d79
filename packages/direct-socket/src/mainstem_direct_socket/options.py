"""What the document says of sockets and pipes."""

from __future__ import annotations

import re
import socket
from datetime import timedelta
from pathlib import Path
from typing import Literal, NamedTuple, Self

from mainstem import HostTLSOptions, LocalPath, Options, PositiveDuration, option
from mainstem_egress import EgressOptions
from mainstem_ingress import IngressOptions
from pydantic import field_validator, model_validator

from mainstem_direct_socket.framing import FramingOptions

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


class SocketSourceOptions(AddressOptions, FramingOptions, IngressOptions):
    """Options of the source `socket`."""

    certificates: ServerTLSOptions | None = option(
        None, description="What TLS is spoken with, where others connect to this (`listen`)."
    )
    tls: HostTLSOptions | None = option(
        None,
        description="That TLS is spoken with whom this connects to (`connect`); `{}` is enough.",
    )
    connections: int = option(
        1000, gt=0, advanced=True, description="How many connections there may be at a time."
    )
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10),
        advanced=True,
        description="How long making a connection may take, and its handshake.",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if (self.listen is None) == (self.connect is None):
            raise ValueError("expected either listen or connect")
        if self.certificates is not None and self.listen is None:
            raise ValueError("certificates are of who listens; there is `tls`")
        if self.tls is not None and self.connect is None:
            raise ValueError("tls is of who connects; there are `certificates`")
        if self.receivers > 1 and (self.connect is not None or self.place.path):
            raise ValueError("expected one of `receivers`: only a port can be shared")
        return self


class PipeSourceOptions(FramingOptions, IngressOptions):
    """Options of the source `pipe`."""

    path: LocalPath | None = option(
        None, description="A named pipe, made where it is not there.", example="./events.pipe"
    )
    command: list[str] | None = option(
        None,
        min_length=1,
        description="A program and its arguments, whose output is read.",
        example=["journalctl", "-f", "-o", "json"],
    )
    restart: Literal["always", "failed", "never"] = option(
        "failed",
        description="When the program is started again after it ended: `always`; `failed`, with an exit "
        "code other than 0; `never`.",
    )

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if self.path is not None and self.command is not None:
            raise ValueError("expected a path or a command, or neither: standard input")
        if self.receivers > 1:
            raise ValueError("expected one of `receivers`")
        return self

    @property
    def origin(self) -> str:
        """What rows say that they came from."""
        if self.command is not None:
            return Path(self.command[0]).name
        return str(self.path) if self.path is not None else "stdin"


class SocketOptions(FramingOptions, EgressOptions):
    """Options of the sink `socket`."""

    connect: str = option(
        description="Whom to connect to: `host:port`, or `unix:/path`.", example="collector:7000"
    )
    tls: HostTLSOptions | None = option(None, description="That TLS is spoken; `{}` is enough.")
    connect_timeout: PositiveDuration = option(
        timedelta(seconds=10), advanced=True, description="How long making a connection may take."
    )

    @field_validator("connect")
    @classmethod
    def _is_place(cls, value: str) -> str:
        place_of(value)
        return value


class StdoutOptions(Options):
    """Options of `stdout`: none."""
