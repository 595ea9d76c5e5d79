"""A connection to Redis, and what its errors mean: the one module that imports the vendor's library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from mainstem import PermanentError, TLSOptions, TransientError
from redis import Connection, SSLConnection
from redis import exceptions as errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from mainstem_cache_redis.options import (
    RedisOptions,
    RedisSourceOptions,
    RedisTableOptions,
    place,
)

PORT, SENTINEL_PORT = 6379, 26379
Given = RedisOptions | RedisSourceOptions | RedisTableOptions
#: Answers that pass with time. The library makes some of them classes, and cuts off the word.
_TRANSIENT = ("BUSY", "NOREPLICAS", "MISCONF")
_TRANSIENT_CLASSES = (
    errors.OutOfMemoryError,
    errors.ReadOnlyError,
    errors.TryAgainError,
    errors.ClusterDownError,  # MASTERDOWN too
)
#: Answers that every other message would get too.
_FOR_ALL = ("unknown command",)
_FOR_ALL_CLASSES = (errors.NoPermissionError, errors.AskError, errors.ClusterCrossSlotError)


def connect(options: Given, name: str) -> Any:
    """Return a connection of the vendor's that Redis has let in.

    Raises:
        TransientError: it can't be reached now.
        PermanentError: it does not let us in, or a file of `tls` can't be read.
    """
    address = options.address()
    given: dict[str, Any] = {
        "host": address.hostname,
        "port": address.port or PORT,
        "db": int(address.path.strip("/") or 0),
        "username": unquote(address.username) if address.username else None,
        "password": unquote(address.password) if address.password else None,
        "socket_connect_timeout": options.connect_timeout.total_seconds(),
        "socket_timeout": options.answer_timeout.total_seconds(),
        "socket_keepalive": True,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),  # the caller does
    }
    kind: Any = Connection
    if address.scheme == "rediss":
        kind = SSLConnection
        tls = options.tls or TLSOptions()
        try:
            tls.context()  # its errors say which file
        except OSError as error:
            raise PermanentError(str(error)) from None
        files = {"ssl_ca_certs": tls.ca, "ssl_certfile": tls.certificate, "ssl_keyfile": tls.key}
        given |= {option: str(file) for option, file in files.items() if file is not None}
        given |= {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
    if options.sentinels:
        given["host"], given["port"] = _master(options, given, secure=kind is SSLConnection)
    made = kind(**given)
    try:
        made.connect()
        if options.sentinels:
            made.send_command("ROLE")
            if made.read_response()[0] != b"master":
                raise errors.ReadOnlyError(
                    "it is no master any more, and its sentinels do not know yet"
                )
        with suppress(errors.ResponseError):  # not every user may say who it is
            made.send_command("CLIENT", "SETNAME", name.replace(" ", "."))
            made.read_response()
    except (errors.RedisError, OSError) as error:
        made.disconnect()
        raise failure(error) from None
    return made


def _master(options: Given, given: Mapping[str, Any], *, secure: bool) -> tuple[str, int]:
    """Return where the sentinels say that the master is.

    Raises:
        TransientError: none knows.
        PermanentError: none of them lets us in.
    """
    own = {name: given[name] for name in ("socket_connect_timeout", "socket_timeout", "protocol")}
    own |= {name: value for name, value in given.items() if name.startswith("ssl_")}
    password = options.sentinel_password
    own |= {"password": password.get_secret_value() if password else None, "retry": given["retry"]}
    told, lasting = [], True
    for each in options.sentinels:
        host, port = place(each, SENTINEL_PORT)
        made: Any = (SSLConnection if secure else Connection)(host=host, port=port, **own)
        try:
            made.connect()
            made.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", options.service)
            if (found := made.read_response()) is not None:
                return found[0].decode(), int(found[1])
            told.append(f"{each} knows no {options.service}")
            lasting = False
        except (errors.AuthenticationError, errors.NoPermissionError) as error:
            told.append(f"{each}: {error}")
        except (errors.RedisError, OSError) as error:
            told.append(f"{each}: {error}")
            lasting = False
        finally:
            made.disconnect()
    raise (PermanentError if lasting else TransientError)("; ".join(told))


class Commands:
    """Commands that are sent together, each answered.

    Raises:
        TransientError, PermanentError: Redis can't be reached.
    """

    def __init__(self, options: Given, name: str) -> None:
        self._connection = connect(options, name)

    def all(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the answer to each command, an exception where it is an error."""
        try:
            packed = self._connection.pack_commands(commands)
            self._connection.send_packed_command(packed)
            found = []
            for _ in commands:
                try:
                    found.append(self._connection.read_response())
                except errors.ResponseError as error:
                    found.append(error)
        except (errors.RedisError, OSError) as error:
            raise failure(error) from None
        return found

    def close(self) -> None:
        """End the connection."""
        self._connection.disconnect()


def place_of(options: Given) -> str:
    """Return where Redis is, in words without secrets."""
    address = options.address()
    if options.sentinels:
        return f"redis, service {options.service} of {', '.join(options.sentinels)}"
    return f"redis at {address.hostname}:{address.port or PORT}"


def failure(error: Exception) -> PermanentError | TransientError:
    """Return what an error is that is not about one message."""
    text = str(error) or type(error).__name__
    if isinstance(error, errors.AskError):  # MOVED too
        return PermanentError(f"it is of a Redis Cluster, which is not supported: {text}")
    if isinstance(error, errors.ResponseError | errors.AuthenticationError):
        return TransientError(text) if _passes(error) else PermanentError(text)
    if "certificate verify failed" in text.lower():
        return PermanentError(text)
    return TransientError(text)


def can_be_taken_later(error: errors.ResponseError) -> bool:
    """Whether an answer to a message says that Redis can't take it now; if not, it never will.

    Raises:
        PermanentError: it can't take any message.
    """
    if isinstance(error, _FOR_ALL_CLASSES) or str(error).startswith(_FOR_ALL):
        raise failure(error)
    return _passes(error)


def _passes(error: Exception) -> bool:
    return isinstance(error, _TRANSIENT_CLASSES) or str(error).startswith(_TRANSIENT)
