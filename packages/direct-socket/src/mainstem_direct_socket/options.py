"""What the document says of sockets and pipes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal, Self

from mainstem import HostTLSOptions, LocalPath, Options, PositiveDuration, option
from mainstem_egress import EgressOptions
from mainstem_ingress import IngressOptions
from mainstem_ingress.framing import FramingOptions
from mainstem_ingress.streams import StreamOptions, place_of
from pydantic import field_validator, model_validator


class SocketSourceOptions(StreamOptions, IngressOptions):
    """Options of the source `socket`."""

    @model_validator(mode="after")
    def _shared(self) -> Self:
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
