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
#: The server's log does not go back to where a stream is to begin.
_LOST = {260, 280, 286}
#: A snapshot is too old, or not there yet.
_NO_SNAPSHOT = {239, 246}
#: How many events, or documents, the server sends at once.
_BATCH = 5_000


class NoSnapshotError(Exception):
    """The server has no snapshot of the time that was asked for."""


class Connection:
    """One client, to the primary; close it.

    Raises:
        TransientError, PermanentError: there is none to be had.
    """

    def __init__(self, options: MongoDBSourceOptions) -> None:
        self._place = options.place
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
                connectTimeoutMS=milliseconds,
                serverSelectionTimeoutMS=milliseconds,
                socketTimeoutMS=int(options.answer_timeout.total_seconds() * 1000),
                retryReads=False,
                **given,
            )
        try:
            with self._failures():
                self._session = self._client.start_session(causal_consistency=False)
            self.hello = self.command("admin", {"hello": 1})
        except BaseException:
            self.close()
            raise

    def command(
        self, database: str, command: Mapping[str, Any], seconds: float = 0.0, *, raw: bool = False
    ) -> dict[str, Any]:
        """Run a command and return its answer.

        Args:
            seconds: how long it may take, where that is not `answer_timeout`.
            raw: whether the documents in the answer are left as bytes.

        Raises:
            GapError: the server's log does not go back so far.
            NoSnapshotError: it has no such snapshot.
            TransientError, PermanentError: it failed otherwise; the words are the server's.
        """
        with self._failures(), pymongo.timeout(seconds or None):
            found: dict[str, Any] = self._client[database].command(
                dict(command), codec_options=RAW if raw else READ, session=self._session
            )
            return found

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except errors.OperationFailure as error:
            text = str((error.details or {}).get("errmsg") or error)
            if error.code in _LOST:
                raise GapError(f"the server's log does not go back so far ({text})") from None
            if error.code in _NO_SNAPSHOT:
                raise NoSnapshotError(text) from None
            kind = PermanentError if error.code in _LASTING else TransientError
            raise kind(f"{self._place}: {text}") from None
        except (errors.ConfigurationError, errors.InvalidURI) as error:
            raise PermanentError(f"{self._place}: {error}") from None
        except (errors.PyMongoError, OSError) as error:
            # It ends with a description of all servers.
            text = str(error).partition(", Timeout:")[0]
            raise TransientError(f"{self._place}: {type(error).__name__}: {text}") from None

    def now(self) -> Any:
        """Return the server's time: a `Timestamp` that no later write has."""
        return self.command("admin", {"ping": 1})["operationTime"]

    def close(self) -> None:
        """End it."""
        self._client.close()


class Stream:
    """The changes that a server tells.

    Attributes:
        token: behind which nothing was returned yet.
        more: whether it may have more at once.
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
            raw=True,
        )
        self._take(found["cursor"])

    def _take(self, cursor: Any) -> None:
        self._id = int(cursor["id"])
        batch = cursor["firstBatch"] if "firstBatch" in cursor else cursor["nextBatch"]
        self._events.extend(each.raw for each in batch)
        self.token = str(cursor["postBatchResumeToken"]["_data"])
