"""Connections to the server: commands, and the cursor of its change stream. All of pymongo is here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pymongo
from mainstem import PermanentError, TransientError
from mainstem_cdc import GapError
from pymongo import errors

from mainstem_cdc_mongodb.documents import RAW, READ
from mainstem_cdc_mongodb.options import MongoDBSourceOptions

#: Errors that a retry does not mend: values and commands that are refused, rights, no replica set.
_LASTING = {2, 9, 13, 14, 18, 59, 72, 166, 8000, 40324, 40415, 40573}
#: Errors that a retry may mend, whatever was asked: servers that come and go, no answer in time.
_PASSING = {
    6, 7, 43, 50, 89, 91, 112, 133, 189, 202, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436,
}  # fmt: skip
#: The server's log does not go back to where a stream is to begin; or what is there does not fit it.
_LOST, _UNFIT = {260, 286}, 280
#: A snapshot is too old, not there yet, or of a time that the server has not come to.
_NO_SNAPSHOT = {72, 239, 246}
#: An event that is larger than a document may be.
_TOO_LARGE = 10334
#: How many events, or documents, the server sends at once.
_BATCH = 5_000
#: How long the server may take for a chunk, or for looking through its log, in seconds.
READING = 600.0


class UnfitPlaceError(Exception):
    """A stream can't begin behind a token, though the log goes back so far."""


class NoSnapshotError(Exception):
    """The server has no snapshot of the time that was asked for."""


class Connection:
    """One client, to the primary; close it.

    Raises:
        TransientError, PermanentError: there is none to be had.
    """

    def __init__(self, options: MongoDBSourceOptions) -> None:
        self._place = options.place
        self._named = options.url.get_secret_value().startswith("mongodb+srv:")
        self._patience = options.answer_timeout.total_seconds()
        milliseconds = int(options.connect_timeout.total_seconds() * 1000)
        given: dict[str, Any] = {}
        if tls := options.tls:
            for file in (tls.ca, tls.certificate, tls.key):
                if file is not None and not file.is_file():
                    raise PermanentError(f"tls: there is no file {file}")
            if tls.key not in (None, tls.certificate):
                raise PermanentError(
                    "tls: MongoDB's client takes certificate and key from one file: name it in both"
                )
            given = {"tls": True, "tlsAllowInvalidHostnames": not tls.verify_host}
            if tls.ca is not None:
                given["tlsCAFile"] = str(tls.ca)
            if tls.certificate is not None:
                given["tlsCertificateKeyFile"] = str(tls.certificate)
        with self._failures():
            self._client: Any = pymongo.MongoClient(
                options.url.get_secret_value(),
                appname="mainstem",
                connectTimeoutMS=min(milliseconds, int(self._patience * 1000)),
                serverSelectionTimeoutMS=milliseconds,
                # One that stands still is found out by what pymongo asks it meanwhile.
                socketTimeoutMS=int(READING * 1000),
                heartbeatFrequencyMS=max(500, int(self._patience * 500)),
                server_selector=_One(),
                retryReads=False,
                **given,
            )
        try:
            with self._failures():
                self._session = self._client.start_session(causal_consistency=False)
            # What a command may take is also how long it looks for a server.
            seconds = min(options.connect_timeout.total_seconds(), self._patience)
            self.hello = self.command("admin", {"hello": 1}, seconds)
        except BaseException:
            self.close()
            raise

    def command(
        self,
        database: str,
        command: Mapping[str, Any],
        seconds: float | None = 0.0,
        *,
        raw: bool = False,
        snapshot: bool = False,
        lasting: bool = False,
    ) -> dict[str, Any]:
        """Run a command and return its answer.

        Args:
            seconds: how long it may take; `answer_timeout` when left out, None for as long as `READING`.
            raw: whether the documents in the answer are left as bytes.
            snapshot: whether it reads one.
            lasting: whether what it asks may be wrong, so that few errors pass.

        Raises:
            GapError: the server's log does not go back so far.
            UnfitPlaceError: it does, and a stream can't begin there.
            NoSnapshotError: it has no such snapshot.
            TransientError, PermanentError: it failed otherwise; the words are the server's.
        """
        limit = None if seconds is None else seconds or self._patience
        with self._failures(snapshot=snapshot, lasting=lasting), pymongo.timeout(limit):
            found: dict[str, Any] = self._client[database].command(
                dict(command), codec_options=RAW if raw else READ, session=self._session
            )
            return found

    @contextmanager
    def _failures(self, *, snapshot: bool = False, lasting: bool = False) -> Iterator[None]:
        try:
            yield
        except errors.OperationFailure as error:
            raise self._failure(error, snapshot=snapshot, lasting=lasting) from None
        except errors.ConfigurationError as error:  # of names that nobody knows now, too
            kind = TransientError if self._named and not _of_url(error) else PermanentError
            raise kind(f"{self._place}: {error}") from None
        except ValueError:  # whose text may have a password
            raise PermanentError(f"{self._place}: the URL can't be used") from None
        except (errors.PyMongoError, OSError) as error:
            # It ends with a description of all servers.
            text = str(error).partition(", Timeout:")[0]
            raise TransientError(f"{self._place}: {type(error).__name__}: {text}") from None

    def _failure(
        self, error: errors.OperationFailure, *, snapshot: bool, lasting: bool
    ) -> Exception:
        text = str((error.details or {}).get("errmsg") or error)
        if error.code in _LOST:
            return GapError(f"the server's log does not go back so far ({text})")
        if error.code == _UNFIT:
            return UnfitPlaceError(text)
        if snapshot and error.code in _NO_SNAPSHOT:
            return NoSnapshotError(text)
        if error.code == _TOO_LARGE:
            text += ": an event is larger than a document may be, which MongoDB 7 takes apart"
            return PermanentError(f"{self._place}: {text}")
        passes = error.code in _PASSING if lasting else error.code not in _LASTING
        return (TransientError if passes else PermanentError)(f"{self._place}: {text}")

    def now(self) -> Any:
        """Return the server's time: a `Timestamp` that no later write has."""
        return self.command("admin", {"ping": 1})["operationTime"]

    def close(self) -> None:
        """End it."""
        self._client.close()


def _of_url(error: Exception) -> bool:
    """Whether it is the URL that is wrong, and no name that is looked up."""
    return isinstance(error, errors.InvalidURI) or not isinstance(
        error.__cause__ or error.__context__, Exception
    )


class _One:
    """Keeps to one server: cursors are at the server that made them."""

    def __init__(self) -> None:
        self._address: Any = None

    def __call__(self, servers: Sequence[Any]) -> list[Any]:
        if self._address is None and servers:
            self._address = servers[0].address
        return [server for server in servers if server.address == self._address]


class Stream:
    """The changes that a server tells.

    Attributes:
        token: where the server has looked to, in hexadecimal: behind it nothing has come yet.
    """

    def __init__(
        self, connection: Connection, database: str, pipeline: Sequence[Mapping[str, Any]]
    ) -> None:
        self._connection = connection
        self._database = database
        self._events: deque[bytes] = deque()
        found = connection.command(
            database,
            {"aggregate": 1, "pipeline": list(pipeline), "cursor": {"batchSize": 0}},
            raw=True,
        )
        self.token = ""
        self._id = 0
        self._take(found["cursor"])

    def next(self) -> bytes | None:
        """Return the next event, of those that have come."""
        return self._events.popleft() if self._events else None

    def wait(self, seconds: float) -> None:
        """Ask for events, and wait for the first for so long at most."""
        if self._events:
            return
        if not self._id:
            raise TransientError("the server has ended the stream of changes")
        found = self._connection.command(
            self._database,
            {
                "getMore": self._id,
                "collection": "$cmd.aggregate",
                "maxTimeMS": max(1, int(seconds * 1000)),
                "batchSize": _BATCH,
            },
            None,
            raw=True,
        )
        self._take(found["cursor"])

    def _take(self, cursor: Any) -> None:
        self._id = int(cursor["id"])
        batch = cursor["firstBatch"] if "firstBatch" in cursor else cursor["nextBatch"]
        self._events.extend(each.raw for each in batch)
        self.token = str(cursor["postBatchResumeToken"]["_data"])
