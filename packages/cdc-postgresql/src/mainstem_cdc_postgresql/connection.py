"""Connections to the server: statements with text in and out, and the stream of a slot.

No call waits for ever for a server that stands still.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from mainstem import PermanentError, TransientError
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mainstem_cdc_postgresql.options import PostgreSQLSourceOptions
from mainstem_cdc_postgresql.protocol import EPOCH

#: How values are printed, whatever the server's own settings.
_PRINTED = {
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    # Or a backslash in a key would change what it is compared with.
    "standard_conforming_strings": "on",
    # A policy that hides rows from us is an error: the log does not hide them.
    "row_security": "off",
}
#: Parts of what is said when connecting again does not help.
_REFUSED = (
    "authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied",
    "certificate", "private key file", "does not support SSL", " alert ", "permission denied",
    "not permitted to log in",
    "must be superuser or replication role", "Only roles with the REPLICATION attribute",
)  # fmt: skip
#: States of errors that may pass: somebody else has the slot (55006), no room or too many clients (53), a
#: server that ends or starts (57P0.), a disk that fails for a while (58).
_PASSING = ("08", "40", "53", "55006", "55P03", "57P01", "57P02", "57P03", "57014", "58", "25P03")
_ALIVE, _STATUS = struct.Struct("!QqB"), struct.Struct("!cQQQqB")
_ROWS, _KEEPALIVE = b"wk"

#: How long a slot may be held by a connection that is closed, in seconds.
_LETTING_GO = 5.0

Row = tuple[str | None, ...]


def _nothing() -> None:
    pass


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def lsn(text: str) -> int:
    """Return a place in the log, as PostgreSQL writes it, as a number."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def written(place: int) -> str:
    """Return a place in the log as PostgreSQL writes it."""
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


class Connection:
    """One connection; close it.

    Args:
        replication: a connection that takes commands of replication.

    Raises:
        TransientError, PermanentError: there is none to be had.
    """

    def __init__(self, options: PostgreSQLSourceOptions, *, replication: bool = False) -> None:
        self._place = options.place
        self._patience = options.answer_timeout.total_seconds()
        self._pg = pq.PGconn.connect(conninfo(options, replication=replication).encode())
        if self._pg.status != pq.ConnStatus.OK:
            told = self._words(self._pg)
            self._pg.finish()
            lasting = any(word in told for word in _REFUSED)
            raise (PermanentError if lasting else TransientError)(told)

    def query(
        self, sql: str, values: Sequence[str | None] = (), seconds: float | None = None
    ) -> list[Row]:
        """Run a statement and return its rows.

        Args:
            values: of the statement's $1, $2 and so on, as text.
            seconds: how long the server may take; `answer_timeout` when left out.

        Raises:
            TransientError, PermanentError: it failed; the words are the server's.
        """
        return [
            tuple(None if value is None else value.decode() for value in row)
            for row in self.rows(sql, values, seconds)
        ]

    def rows(
        self,
        sql: str,
        values: Sequence[str | None] = (),
        seconds: float | None = None,
        meanwhile: Callable[[], None] = _nothing,
    ) -> list[list[bytes | None]]:
        """As `query`, with values as they are sent.

        Args:
            meanwhile: called once a second until the server has answered.
        """
        result = self._run(sql, values, seconds, meanwhile)
        get, columns = result.get_value, range(result.nfields)
        return [[get(row, at) for at in columns] for row in range(result.ntuples)]

    def _run(
        self,
        sql: str,
        values: Sequence[str | None],
        seconds: float | None,
        meanwhile: Callable[[], None] = _nothing,
    ) -> Any:
        try:
            if values:
                given = [None if value is None else value.encode() for value in values]
                self._pg.send_query_params(sql.encode(), given)
            else:
                self._pg.send_query(sql.encode())
            return self._result(self._patience if seconds is None else seconds, meanwhile)
        except psycopg.Error as error:
            raise TransientError(f"{self._place}: {error}") from None

    def _result(self, seconds: float, meanwhile: Callable[[], None]) -> Any:
        until = time.monotonic() + seconds
        found = failed = None
        while True:
            while self._pg.is_busy():
                left = until - time.monotonic()
                if left <= 0:
                    raise TransientError(f"{self._place}: no answer for {seconds:.0f} seconds")
                if self.wait(min(left, 1.0)):
                    self._pg.consume_input()
                else:
                    meanwhile()
            result = self._pg.get_result()
            if result is None:
                break
            if result.status == pq.ExecStatus.COPY_BOTH:
                return result
            if result.status == pq.ExecStatus.FATAL_ERROR:
                failed = failed or result
            else:
                found = result
        if failed is not None:
            raise self._failure(failed)
        return found

    def wait(self, seconds: float) -> bool:
        """Wait until the server has said something; False if it has not."""
        if seconds <= 0:
            return False
        return bool(select.select([self._pg.socket], [], [], seconds)[0])

    def _failure(self, result: Any) -> Exception:
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        said = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
        text = said.decode(errors="replace") if said else self._words(result)
        lasting = bool(state) and not state.startswith(_PASSING)
        return (PermanentError if lasting else TransientError)(f"{self._place}: {text}")

    def _words(self, of: Any) -> str:
        return f"{self._place}: {' '.join(pq.error_message(of).split())}"

    def close(self) -> None:
        """End the connection."""
        self._pg.finish()


class Stream(Connection):
    """What a slot has, as it comes.

    Attributes:
        reached: up to where the server has nothing that it has not sent.
        heard: when it said something last, by the monotonic clock.
    """

    def __init__(self, options: PostgreSQLSourceOptions) -> None:
        super().__init__(options, replication=True)
        self.reached = 0
        self.heard = time.monotonic()
        self._asked = False
        self.identify()

    def identify(self) -> None:
        """Ask the server who it is."""
        system = self.query("IDENTIFY_SYSTEM")[0]
        #: What tells the server from every other, but not from its standbys.
        self.system = str(system[0])
        #: The number of its history, and where in the log that began.
        self.timeline = int(str(system[1]))
        self.began = max((place for _, place in self._history()), default=0)
        self.end = lsn(str(system[2]))

    def _history(self) -> list[tuple[int, int]]:
        """Return the histories that the server's own came of, and where each ended."""
        if self.timeline == 1:
            return []
        ((_, content),) = self.query(f"TIMELINE_HISTORY {self.timeline}")
        found = []
        for line in str(content).splitlines():
            number, _, rest = line.strip().partition("\t")
            if number.isdecimal():
                found.append((int(number), lsn(rest.split("\t")[0])))
        return found

    def parted(self, timeline: int) -> int | None:
        """Return up to which place the server's history is that of a timeline; None if it is not."""
        return dict(self._history()).get(timeline)

    def begin(self, slot: str, publication: str, after: int) -> None:
        """Let the changes come that were committed at a place or behind it.

        Raises:
            TransientError: somebody else reads the slot.
        """
        options = (
            f"proto_version '1', publication_names {literal(quoted(publication))}, messages 'true'"
        )
        command = f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {written(after)} ({options})"
        until = time.monotonic() + _LETTING_GO
        while True:
            try:
                self._run(command, (), None)
            except TransientError:  # whoever had it before may be about to end
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
            else:
                break
        self._pg.nonblocking = 1

    def next(self) -> bytes | None:
        """Return the next message of the plugin; None if none has come yet.

        Raises:
            TransientError, PermanentError: the server has ended the stream.
        """
        try:
            while True:
                size, data = self._pg.get_copy_data(1)
                if size == 0:
                    self._pg.consume_input()
                    size, data = self._pg.get_copy_data(1)
                    if size == 0:
                        return None
                if size < 0:
                    self._ended()
                self.heard = time.monotonic()
                kind = data[0]
                if kind == _ROWS:
                    return bytes(data[25:])
                if kind == _KEEPALIVE:
                    end, _, asked = _ALIVE.unpack_from(data, 1)
                    self.reached = max(self.reached, end)
                    self._asked = self._asked or bool(asked)
        except psycopg.Error as error:
            raise TransientError(f"{self._place}: {error}") from None

    def _ended(self) -> None:
        result = self._pg.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            raise self._failure(result)
        raise TransientError(f"{self._place}: the server has ended the stream")

    @property
    def asked(self) -> bool:
        """Whether the server wants to be told at once how far we are."""
        return self._asked

    def tell(self, stored: int, *, answer: bool = False) -> None:
        """Say up to where all is stored, which the server need not keep any longer.

        Args:
            answer: ask for `reached`.
        """
        now = time.time_ns() // 1000 - EPOCH
        try:
            self._pg.put_copy_data(_STATUS.pack(b"r", stored, stored, stored, now, answer))
            self._pg.flush()
        except psycopg.Error as error:
            raise TransientError(f"{self._place}: {error}") from None
        self._asked = False


def conninfo(options: PostgreSQLSourceOptions, *, replication: bool = False) -> str:
    """Return what a connection is made by, as libpq has it.

    Raises:
        PermanentError: the options are wrong.
    """
    url = options.url.get_secret_value()
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        raise PermanentError("the URL has parameters that nobody knows") from None
    ours = " ".join(f"-c {name}={value}" for name, value in _PRINTED.items())
    made: dict[str, Any] = {
        "connect_timeout": max(2, round(options.connect_timeout.total_seconds())),
        "application_name": given.get("application_name", "mainstem"),
        "client_encoding": "UTF8",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
        "options": " ".join([*([str(given["options"])] if given.get("options") else []), ours]),
    }
    if replication:
        made["replication"] = "database"
    if tls := options.tls:
        for file in (tls.ca, tls.certificate, tls.key):
            if file is not None and not file.is_file():
                raise PermanentError(f"tls: there is no file {file}")
        made["sslmode"] = "verify-full" if tls.verify_host else "verify-ca"
        made["sslrootcert"] = str(tls.ca) if tls.ca else "system"
        if tls.certificate is not None:
            made |= {"sslcert": str(tls.certificate), "sslkey": str(tls.key or tls.certificate)}
    return make_conninfo(url, **made)
