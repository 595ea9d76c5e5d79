"""The options that both components share: addresses, limits, and who may connect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import reduce
from typing import Annotated, Any, Literal

from mainstem import Duration, Hidden, Options, Secret, Size, option
from pydantic import field_validator, model_validator

from mainstem_direct_zeromq.frames import check_layout

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {character: digit for digit, character in enumerate(_Z85)}
#: Five characters of Z85 stand for 32 bits (RFC 32 of ZeroMQ).
_KEY_LENGTH, _WORD = 40, 5
_TCP = re.compile(r"tcp://(?P<host>\[[^\]\s]+\]|[^:/\s]+):(?P<port>\d{1,5}|\*)")
_MOST_PLAIN = 255
_TOPIC_AND_VALUE = ("sub", "pub")
#: What TCP and libzmq take as a size, at most.
_MOST_INT = 2**31 - 1


def check_key(text: str) -> None:
    """Check that a text is a CURVE key as ZeroMQ writes it.

    Raises:
        ValueError: it is not; the message has nothing of it.
    """
    words = [text[at : at + _WORD] for at in range(0, len(text), _WORD)]
    if (
        len(text) != _KEY_LENGTH
        or not _DIGITS.keys() >= set(text)
        or any(reduce(lambda n, c: n * len(_Z85) + _DIGITS[c], word, 0) >= 2**32 for word in words)
    ):
        raise ValueError(
            "expected a CURVE key: 40 characters of Z85, as zmq_curve_keypair makes it"
        )


def _check_secret_key(key: Secret) -> Secret:
    check_key(key.get_secret_value())
    return key


def _check_password(password: Secret) -> Secret:
    if not 0 < len(password.get_secret_value().encode()) <= _MOST_PLAIN:
        raise ValueError(f"a password of PLAIN has 1 to {_MOST_PLAIN} bytes")
    return password


#: A secret key of CURVE, in Z85.
SecretKey = Annotated[Secret, Hidden(_check_secret_key)]
#: A password of PLAIN.
Password = Annotated[Secret, Hidden(_check_password)]


class CurveOptions(Options):
    """Options of `curve`."""

    secret_key: SecretKey | None = option(
        None,
        description="This side's secret key, in Z85. A client that leaves it out makes a pair of its "
        "own for each connection, for servers that let anybody in.",
        example="${env:CURVE_SECRET}",
    )
    server_key: str | None = option(
        None,
        description="The public key of the peers, in Z85: they are the servers of CURVE, and this "
        "side is the client.",
    )
    clients: list[str] | Literal["any"] | None = option(
        None,
        description="The public keys, in Z85, that are let in: this side is the server of CURVE. "
        "`any` lets in all who know the public key of this side.",
    )

    @field_validator("server_key", "clients")
    @classmethod
    def _keys(cls, value: Any) -> Any:
        if value is not None and value != "any":
            for key in [value] if isinstance(value, str) else value:
                check_key(key)
        return value

    @model_validator(mode="after")
    def _one_side(self) -> CurveOptions:
        if (self.server_key is None) == (self.clients is None):
            raise ValueError("expected either server_key (a client) or clients (the server)")
        if self.clients is not None and self.secret_key is None:
            raise ValueError("the server of CURVE needs a secret_key")
        if self.clients == []:
            raise ValueError("clients is empty, so nobody would be let in")
        return self


class PlainOptions(Options):
    """Options of `plain`."""

    user: str | None = option(
        None, min_length=1, description="Who this side is: it is the client of PLAIN."
    )
    password: Password | None = option(
        None, description="The password of `user`.", example="${env:ZEROMQ_PASSWORD}"
    )
    users: Mapping[str, Password] | None = option(
        None,
        description="The passwords by user who are let in: this side is the server of PLAIN.",
        example={"sensors": "${env:SENSORS_PASSWORD}"},
    )

    @model_validator(mode="after")
    def _one_side(self) -> PlainOptions:
        if (self.user is None) == (self.users is None):
            raise ValueError("expected either user (a client) or users (the server)")
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password belong together")
        if self.users is not None and not self.users:
            raise ValueError("users is empty, so nobody would be let in")
        names = [self.user or "", *(self.users or ())]
        if any(len(name.encode()) > _MOST_PLAIN for name in names):
            raise ValueError(f"a user's name has {_MOST_PLAIN} bytes at most")
        return self


def _check_address(address: str, *, bind: bool) -> None:
    if address.startswith("ipc://"):
        path = address.removeprefix("ipc://")
        if not path.startswith(("/", "@")) or len(path) < 2:
            raise ValueError(f"{address!r}: expected ipc:// and an absolute path, or ipc://@NAME")
        return
    match = _TCP.fullmatch(address)
    if match is None:
        raise ValueError(f"{address!r}: expected tcp://HOST:PORT or ipc:///PATH")
    if match["port"] == "*" or not 0 < int(match["port"]) < 2**16:
        raise ValueError(f"{address!r}: expected a port from 1 to 65535")
    if match["host"] == "*" and not bind:
        raise ValueError(f"{address!r}: `*` is for `bind`; say which host to connect to")


class LinkOptions(Options):
    """What the source and the sink share."""

    socket: str = option(..., description="The kind of socket.")
    frames: list[str] | None = option(
        None,
        min_length=1,
        description="What the frames of each message are, in order: `value`, `key`, `topic`, `headers` "
        "(a JSON object), `header.NAME`, `sequence`, `id`, `skip`. Left out, it is `[value]`, and of "
        "`sub` and `pub` sockets `[topic, value]`.",
        example=["topic", "headers", "value"],
    )
    bind: list[str] | str = option(
        list,
        description="Addresses at which peers connect to this side, `tcp://*:PORT`, "
        "`tcp://INTERFACE:PORT` or `ipc:///PATH`: one or several.",
        example="tcp://*:5557",
    )
    connect: list[str] | str = option(
        list,
        description="Addresses of peers, `tcp://HOST:PORT` or `ipc:///PATH`: one or several. A peer "
        "that is away is retried until it is there.",
        example=["tcp://host-1:5557", "tcp://host-2:5557"],
    )
    curve: CurveOptions | None = option(
        None, description="Encrypts, and says who may connect: CURVE. Peers must do the same."
    )
    plain: PlainOptions | None = option(
        None,
        description="A user and a password, which travel unencrypted: PLAIN. Peers must do the same.",
    )
    keepalive: Duration = option(
        timedelta(seconds=60),
        advanced=True,
        description="After how long a silence the kernel asks a peer's host, every 10 seconds, whether "
        "the connection still stands; it ends with the sixth question without an answer (TCP "
        "keepalive). `0 seconds` for never.",
    )
    heartbeat: Duration = option(
        timedelta(0),
        advanced=True,
        description="How often libzmq asks a peer whether it is alive; `0 seconds` for never. Leave it "
        "so, and let peers do so too: under back-pressure libzmq does not read the answers of peers that "
        "are alive, gives them up, and what is in flight is lost. A frame that takes longer than two "
        "heartbeats never comes.",
    )
    reconnect: Duration = option(
        timedelta(milliseconds=100),
        advanced=True,
        description="The pause before a connection that broke is retried; it doubles up to "
        "`reconnect_most`.",
    )
    reconnect_most: Duration = option(
        timedelta(seconds=5), advanced=True, description="The longest such pause."
    )
    socket_buffer: Size | None = option(
        None,
        gt=0,
        le=_MOST_INT,
        advanced=True,
        description="The size of the kernel's buffer for each connection, in which messages wait too; "
        "the system's default when left out.",
    )

    @field_validator("bind", "connect")
    @classmethod
    def _addresses(cls, value: list[str] | str, info: Any) -> list[str]:
        addresses = [value] if isinstance(value, str) else value
        for address in addresses:
            _check_address(address, bind=info.field_name == "bind")
        if len(set(addresses)) < len(addresses):
            raise ValueError("an address is there twice")
        return addresses

    @field_validator("frames")
    @classmethod
    def _known(cls, value: list[str] | None) -> list[str] | None:
        if value is not None:
            check_layout(value)
        return value

    @field_validator("keepalive")
    @classmethod
    def _whole(cls, value: timedelta) -> timedelta:
        if value % timedelta(seconds=1):
            raise ValueError("expected whole seconds")
        return value

    @field_validator("keepalive", "heartbeat", "reconnect", "reconnect_most")
    @classmethod
    def _not_too_long(cls, value: timedelta) -> timedelta:
        if value > timedelta(hours=1):
            raise ValueError("expected an hour at most")
        return value

    @field_validator("reconnect", "reconnect_most")
    @classmethod
    def _positive(cls, value: timedelta) -> timedelta:
        if value < timedelta(milliseconds=1):
            raise ValueError("expected more than 0 seconds")
        return value

    @model_validator(mode="after")
    def _fitting(self) -> LinkOptions:
        if not self.bind and not self.connect:
            raise ValueError("expected bind or connect: there is no address")
        if self.curve is not None and self.plain is not None:
            raise ValueError("expected curve or plain, not both")
        return self

    def layout(self) -> list[str]:
        """Return the names of the frames."""
        if self.frames is not None:
            return self.frames
        return ["topic", "value"] if self.socket in _TOPIC_AND_VALUE else ["value"]

    def addresses(self) -> Sequence[str]:
        """Return all addresses, those to bind first."""
        return [*self.bind, *self.connect]
