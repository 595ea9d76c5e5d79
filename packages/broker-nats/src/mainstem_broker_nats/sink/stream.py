"""The stream that takes the messages: made where it is missing, and compared with what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from mainstem import (
    OptionError,
    Options,
    PositiveDuration,
    Size,
    nearest,
    option,
    write_duration,
)

from mainstem_broker_nats.connection import APIError
from mainstem_broker_nats.sink.messages import matches

if TYPE_CHECKING:
    from mainstem_broker_nats.client import Connection

_NANOS = 1_000_000_000
#: What no option of `create` says, or what another one is compared with.
_UNASKED = {"allow_direct", "duplicate_window", "max_consumers", "max_msgs"}
#: What the server takes when nobody says.
_WINDOW = timedelta(minutes=2)


class CreateOptions(Options):
    """Options of `create`."""

    subjects: tuple[str, ...] = option(
        ...,
        min_length=1,
        description="The subjects that the stream takes; `*` stands for one token, `>` for all that "
        "follow.",
        example=["orders.>"],
    )
    retention: Literal["limits", "interest", "workqueue"] = option(
        "limits",
        description="How long messages are kept: up to the limits, until all consumers have "
        "acknowledged them, or until one has.",
    )
    storage: Literal["file", "memory"] = option(
        "file", description="Where messages are kept; in memory they are gone with the server."
    )
    replicas: int = option(1, ge=1, le=5, description="On how many servers of the cluster.")
    max_age: PositiveDuration | None = option(
        None, description="How long messages are kept; without end when left out."
    )
    max_bytes: Size | None = option(
        None, gt=0, description="How large the stream may become; without limit when left out."
    )
    max_message: Size | None = option(
        None,
        gt=0,
        description="How large a message may be, headers too; as large as the server allows when "
        "left out.",
    )
    discard: Literal["old", "new"] = option(
        "old",
        description="What makes room in a full stream: its oldest messages go, or new ones "
        "have to wait.",
    )


def wanted(name: str, create: CreateOptions, window: timedelta | None) -> dict[str, Any]:
    """Return the configuration of a stream to make, in the terms of JetStream's API.

    Args:
        name: of the stream.
        create: how to make it.
        window: its duplicate window; the server's two minutes when None.
    """
    made: dict[str, Any] = {
        "name": name,
        "subjects": list(create.subjects),
        "retention": create.retention,
        "storage": create.storage,
        "num_replicas": create.replicas,
        "max_age": _nanos(create.max_age),
        "max_bytes": create.max_bytes or -1,
        "max_msg_size": create.max_message or -1,
        "discard": create.discard,
        "max_consumers": -1,
        "max_msgs": -1,
        "allow_direct": True,
    }
    if window is not None:
        made["duplicate_window"] = _nanos(window)
    elif create.max_age is not None and create.max_age < _WINDOW:
        made["duplicate_window"] = _nanos(create.max_age)  # it can't be longer
    return made


def ready(
    connection: Connection,
    name: str,
    *,
    create: CreateOptions | None,
    window: timedelta | None,
    subject: str | None,
) -> Mapping[str, Any]:
    """Make sure that the stream is there and takes what will be published; return its configuration.

    Args:
        connection: to the server.
        name: of the stream.
        create: how to make it if it is not there.
        window: what its duplicate window must be at least.
        subject: the one that all messages will have; None if each has its own.

    Raises:
        OptionError: there is none, or it is not what the options say.
        ExternalError: the server does not answer, or forbids it.
    """
    asked = None if create is None else wanted(name, create, window)
    try:
        found = connection.ask(f"STREAM.INFO.{name}")["config"]
    except APIError as error:
        if error.code != 404:
            raise
        found = _made(connection, name, asked)
    else:
        if asked is not None:
            _check_alike(name, asked, found)
    _check_usable(name, found)
    _check_window(name, found, window)
    subjects = found.get("subjects") or []
    if subject is not None and not any(matches(subject, pattern) for pattern in subjects):
        raise OptionError(
            f"stream {name!r} does not take subject {subject!r}, but {', '.join(subjects)}",
            option="subject",
        )
    return found  # type: ignore[no-any-return]


def window_of(config: Mapping[str, Any]) -> timedelta:
    """Return for how long a stream knows the ids of its messages."""
    return timedelta(seconds=int(config.get("duplicate_window") or 0) / _NANOS)


def _made(connection: Connection, name: str, asked: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if asked is None:
        names = connection.ask("STREAM.NAMES").get("streams") or []
        raise OptionError(
            f"there is no stream {name!r} at {connection.server}",
            option="stream",
            hint=nearest(name, names) or "Make it, or say by `create` how the sink is to.",
        )
    try:
        made: Mapping[str, Any] = connection.ask(f"STREAM.CREATE.{name}", asked)["config"]
    except APIError as error:
        if 400 <= error.code < 500 and error.code != 408:
            raise OptionError(f"the stream can't be made: {error}", option="create") from None
        raise
    return made


def _check_alike(name: str, asked: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Refuse a stream that is there and not as `create` says; its window may be longer."""
    other = [
        f"{key} is {_shown(key, found.get(key))}, not {_shown(key, value)}"
        for key, value in asked.items()
        if key not in _UNASKED
        and (
            sorted(found.get(key) or ()) != sorted(value)
            if key == "subjects"
            else found.get(key) != value
        )
    ]
    if other:
        raise OptionError(
            f"stream {name!r} is there, and otherwise than `create` says: {'; '.join(other)}",
            option="create",
            hint="Change the one or the other, or leave `create` out to take the stream as it is.",
        )


def _check_usable(name: str, found: Mapping[str, Any]) -> None:
    why = ""
    if found.get("no_ack"):
        why = "acknowledges nothing (no_ack), so nobody would know what it has taken"
    elif found.get("sealed"):
        why = "is sealed"
    elif found.get("mirror"):
        why = f"is a mirror of {found['mirror'].get('name')}, and takes no messages of its own"
    if why:
        raise OptionError(f"stream {name!r} {why}", option="stream")


def _check_window(name: str, found: Mapping[str, Any], window: timedelta | None) -> None:
    if window is not None and (its := window_of(found)) < window:
        raise OptionError(
            f"stream {name!r} knows its messages for {write_duration(its)} (its duplicate window), "
            f"and {write_duration(window)} are wanted",
            option="duplicates_within",
            hint="Make the stream's window longer (nats stream edit --dupe-window), or this shorter.",
        )


def _nanos(value: timedelta | None) -> int:
    return 0 if value is None else round(value.total_seconds() * _NANOS)


def _shown(key: str, value: Any) -> str:
    if key == "max_age" and value:
        return write_duration(timedelta(seconds=value / _NANOS))
    return ", ".join(value) if isinstance(value, list) else str(value)
