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
from mainstem_cache_redis.slots import slot_of

PORT, SENTINEL_PORT = 6379, 26379
Given = RedisOptions | RedisSourceOptions | RedisTableOptions
#: Answers that pass with time. The library makes some of them classes, and cuts off the word.
_TRANSIENT = ("BUSY", "NOREPLICAS", "MISCONF")
_TRANSIENT_CLASSES = (
    errors.OutOfMemoryError,
    errors.ReadOnlyError,
    errors.TryAgainError,
    errors.ClusterDownError,  # MASTERDOWN too
    errors.AskError,  # MOVED too: the server is asked for anew
    errors.NoScriptError,  # sent again over another connection
)
#: Answers that every other message would get too.
_FOR_ALL = ("unknown command",)
_FOR_ALL_CLASSES = (errors.NoPermissionError, errors.AskError, errors.ClusterCrossSlotError)
#: What a server says that is of a cluster, which nobody has said that it is.
_OF_A_CLUSTER = "it is of a Redis Cluster: write `cluster: true`"


def connect(options: Given, name: str, server: tuple[str, int] | None = None) -> Any:
    """Return a connection of the vendor's that Redis has let in.

    Args:
        name: what Redis shows of it.
        server: one of a cluster's; that of the stream, or the one in `url`, when left out.

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
    if server is None and options.cluster and not isinstance(options, RedisTableOptions):
        cluster = Cluster(options, name)
        server = cluster.server(slot_of(options.name))
        cluster.close()
    if server is not None:
        given["host"], given["port"] = server
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
        raise failure(error, options) from None
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

    Args:
        options: how Redis is reached.
        name: what Redis shows of the connection.
        server: see `connect`.

    Raises:
        TransientError, PermanentError: Redis can't be reached.
    """

    def __init__(self, options: Given, name: str, server: tuple[str, int] | None = None) -> None:
        self._options = options
        self._connection = connect(options, name, server)

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
            raise failure(error, self._options) from None
        return found

    def close(self) -> None:
        """End the connection."""
        self._connection.disconnect()


class Cluster:
    """The servers of a cluster, each with connections that are made when they are wanted.

    Raises:
        TransientError, PermanentError: no server that is named is there, or the last is of no cluster.
    """

    def __init__(self, options: Given, name: str) -> None:
        self._options, self._name = options, name
        self._open: dict[tuple[str, int], Any] = {}
        first, found = self._asked()
        self._ranges: list[tuple[int, int, tuple[str, int]]] = []
        for low, high, master, *_ in found:
            # A server that does not know its own name is the one that was asked.
            host = (master[0] or b"").decode() or first[0]
            self._ranges.append((low, high, (host, int(master[1]))))

    def _asked(self) -> tuple[tuple[str, int], list[Any]]:
        """Return which server has said where slots are, and what."""
        options, address = self._options, self._options.address()
        servers = [(str(address.hostname), address.port or PORT)]
        servers += [place(each, PORT) for each in options.nodes]
        for server in servers:
            try:
                asked = Commands(options, self._name, server)
                (found,) = asked.all([("CLUSTER", "SLOTS")])
                asked.close()
                if isinstance(found, Exception):
                    raise failure(found, options)
            except (TransientError, PermanentError):
                if server == servers[-1]:
                    raise
            else:
                return server, found
        raise AssertionError

    @property
    def servers(self) -> list[tuple[str, int]]:
        """The masters."""
        return list(dict.fromkeys(server for _, _, server in self._ranges))

    def server(self, slot: int) -> tuple[str, int]:
        """Return the master of a slot.

        Raises:
            TransientError: there is none now.
        """
        for low, high, server in self._ranges:
            if low <= slot <= high:
                return server
        raise TransientError(f"no server of the cluster has the slot {slot}")

    def connection(self, slot: int) -> Any:
        """Return a connection to the master of a slot."""
        server = self.server(slot)
        if server not in self._open:
            self._open[server] = connect(self._options, self._name, server)
        return self._open[server]

    def close(self) -> None:
        """End all connections."""
        for connection in self._open.values():
            connection.disconnect()
        self._open.clear()


def place_of(options: Given) -> str:
    """Return where Redis is, in words without secrets."""
    address = options.address()
    if options.cluster:
        return f"redis, cluster of {address.hostname}:{address.port or PORT}"
    if options.sentinels:
        return f"redis, service {options.service} of {', '.join(options.sentinels)}"
    return f"redis at {address.hostname}:{address.port or PORT}"


def failure(error: Exception, options: Given) -> PermanentError | TransientError:
    """Return what an error is that is not about one message."""
    text = str(error) or type(error).__name__
    if isinstance(error, errors.AskError) and not options.cluster:  # MOVED too
        return PermanentError(f"{_OF_A_CLUSTER}: {text}")
    if isinstance(error, errors.ResponseError | errors.AuthenticationError):
        return TransientError(text) if _passes(error) else PermanentError(text)
    if "certificate verify failed" in text.lower():
        return PermanentError(text)
    return TransientError(text)


def can_be_taken_later(error: errors.ResponseError, options: Given) -> bool:
    """Whether an answer to a message says that Redis can't take it now; if not, it never will.

    Raises:
        PermanentError: it can't take any message.
    """
    if isinstance(error, _FOR_ALL_CLASSES) or str(error).startswith(_FOR_ALL):
        raise failure(error, options)
    return _passes(error)


def _passes(error: Exception) -> bool:
    return isinstance(error, _TRANSIENT_CLASSES) or str(error).startswith(_TRANSIENT)
