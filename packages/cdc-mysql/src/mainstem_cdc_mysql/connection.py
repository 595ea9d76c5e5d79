"""Connections to the server: statements with text out, and the stream of its binary log.

PyMySQL has no replication of its own: `Stream` sends the command, and from then on reads what comes from
its socket. No call waits for ever for a server that stands still.
"""

from __future__ import annotations

import math
import random
import select
import ssl
import struct
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
from mainstem import PermanentError, TransientError
from mainstem_cdc import START_OVER, GapError
from pymysql.constants import COMMAND
from pymysql.converters import escape_string

from mainstem_cdc_mysql.gtids import GtidSet
from mainstem_cdc_mysql.options import MySQLSourceOptions
from mainstem_cdc_mysql.places import Beginning

#: How values are printed, whatever the server's own settings.
_PRINTED = "SET time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600"
_DUMP, _DUMP_BY_GTID = 0x12, 0x1E
_BY_GTID = 4
#: Errors that may pass: too many clients, a deadlock, a server that ends, what a connection lost.
_PASSING = {
    0, 1040, 1053, 1077, 1078, 1079, 1080, 1105, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1205, 1213,
    1041, 1047, 1135, 1226, 1317, 1412, 1927, 2002, 2003, 2006, 2012, 2013, 2055, 3024, 3032, 4031,
}  # fmt: skip
#: The server can't read its log on; unless it says that another reader has our number.
_CANT_READ, _SAME_NUMBER = 1236, ("same server_uuid", "same server_id")
_GONE = ("purged", "Could not find first log", "slave state is too old", "has purged")
_ERROR, _END = 0xFF, 0xFE
_MOST = 0xFFFFFF
#: How many bytes are read from the socket at once.
_ROOM = 256 * 1024

#: How many bytes are read before somebody wants them.
_AHEAD = 64 * _ROOM
#: After so many `answer_timeout`s in which the server has said nothing it is given up.
_SILENCE = 4

Row = tuple[bytes | None, ...]


def _nothing() -> None:
    pass


def _first(result: Any, most: int) -> list[Row]:
    """Read the first rows of a result, up to so many bytes; what is behind is thrown away as it comes."""
    found: list[Row] = []
    try:
        while most > 0 and (row := result._read_rowdata_packet_unbuffered()) is not None:
            most -= sum(map(len, filter(None, row)))
            found.append(row)
        result._finish_unbuffered_query()
    finally:
        # After an error too, for it would try to read the rest when it is let go of.
        result.unbuffered_active = False
    return found


class Connection:
    """One connection; close it.

    Raises:
        TransientError, PermanentError: there is none to be had.
    """

    def __init__(self, options: MySQLSourceOptions) -> None:
        self._place = options.place
        self._patience = options.answer_timeout.total_seconds()
        parts = urlsplit(options.url.get_secret_value())
        given: dict[str, Any] = {}
        if options.tls is not None:
            for file in (options.tls.ca, options.tls.certificate, options.tls.key):
                if file is not None and not file.is_file():
                    raise PermanentError(f"tls: there is no file {file}")
            try:
                given["ssl"] = options.tls.context()
            except OSError as error:
                raise PermanentError(f"tls: the files can't be used: {error}") from None
        try:
            self._sql: Any = pymysql.connect(
                host=parts.hostname,
                port=parts.port or options.port,
                user=unquote(parts.username or ""),
                # As bytes: of a text the client would make another one than the server's.
                password=unquote(parts.password or "").encode(),
                database=options.database,
                charset="utf8mb4",
                connect_timeout=max(1, math.ceil(options.connect_timeout.total_seconds())),
                read_timeout=max(1, math.ceil(self._patience)),
                autocommit=True,
                use_unicode=False,
                conv={},
                max_allowed_packet=1 << 30,
                init_command=_PRINTED,
                **given,
            )
        except pymysql.Error as error:
            raise self._failure(error) from None
        except (OSError, ValueError, RuntimeError) as error:
            raise TransientError(f"{self._place}: {type(error).__name__}: {error}") from None

    def query(
        self, sql: str, seconds: float = 0.0, meanwhile: Callable[[], None] = _nothing
    ) -> list[Row]:
        """Run a statement and return its rows; see `first_rows`."""
        return self.first_rows(sql, seconds, meanwhile, None)

    def first_rows(
        self, sql: str, seconds: float, meanwhile: Callable[[], None], most: int | None
    ) -> list[Row]:
        """Run a statement and return its first rows.

        Args:
            seconds: how long the server may take beyond `answer_timeout`.
            meanwhile: called once a second during that time.
            most: behind so many bytes rows are left out; None for all rows.

        Raises:
            TransientError, PermanentError: it failed; the words are the server's.
        """
        connection = self._sql
        until = time.monotonic() + seconds
        try:
            connection._execute_command(COMMAND.COM_QUERY, sql.encode())
            while seconds and not _readable(connection._sock, 1.0):
                meanwhile()
                if time.monotonic() > until:
                    break
            connection._read_query_result(unbuffered=most is not None)
            if most is None:
                return list(connection._result.rows or ())
            return _first(connection._result, most)
        except pymysql.Error as error:
            raise self._failure(error) from None
        except OSError as error:
            raise TransientError(f"{self._place}: {error}") from None

    def texts(self, sql: str) -> list[tuple[str, ...]]:
        """As `query`, with text in place of bytes; null is empty."""
        return [
            tuple("" if value is None else value.decode(errors="replace") for value in row)
            for row in self.query(sql)
        ]

    def status(self, sql: str) -> dict[str, str]:
        """Return the first row of a statement by the names of its columns; empty where there is none."""
        try:
            with self._sql.cursor() as cursor:
                cursor.execute(sql)
                row = cursor.fetchone()
                names = [each[0].lower() for each in cursor.description or ()]
        except pymysql.Error as error:
            raise self._failure(error) from None
        if row is None:
            return {}
        return {
            name: "" if value is None else value.decode(errors="replace")
            for name, value in zip(names, row, strict=True)
        }

    def literal(self, text: bytes) -> str:
        """Return a text as SQL has it, in this connection."""
        return f"'{escape_string(text.decode())}'"

    def _failure(self, error: Exception) -> Exception:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else None
        said = " ".join(str(error.args[-1] if error.args else error).split())
        refused = any(
            word in said.lower() for word in ("certificate", " alert ", "doesn't support ssl")
        )
        passing = code in _PASSING or isinstance(error, pymysql.err.InterfaceError)
        made = TransientError if passing and not refused else PermanentError
        return made(f"{self._place}: {said}")

    def close(self) -> None:
        """End the connection."""
        if self._sql.open:
            self._sql._force_close()


class Stream(Connection):
    """The binary log, as it comes.

    Attributes:
        heard: when the server said something last, by the monotonic clock.
        summed: whether the first event has a checksum.
    """

    def __init__(self, options: MySQLSourceOptions) -> None:
        super().__init__(options)
        self.heard = time.monotonic()
        self.summed = False
        self._number = options.server_id or random.randrange(1 << 30, 1 << 32)  # noqa: S311
        self._beat = min(options.heartbeat.total_seconds(), self._patience / 2)
        self._buffer = bytearray()
        self._at = 0
        self._room = memoryview(bytearray(_ROOM))

    def begin(self, at: Beginning) -> None:
        """Let the events come from a place on."""
        beat = int(self._beat * 1e9)
        self.query(f"SET @master_heartbeat_period = {beat}, @source_heartbeat_period = {beat}")
        ((kind,),) = self.texts("SELECT @@global.binlog_checksum")
        self.summed = kind == "CRC32"
        wanted = self.literal(kind.encode())
        self.query(f"SET @master_binlog_checksum = {wanted}, @source_binlog_checksum = {wanted}")
        name = at.file.encode()
        if at.mariadb:
            self.query("SET @mariadb_slave_capability = 4")
        if at.gtids is None:
            content = struct.pack("<IHI", at.start, 0, self._number) + name
            self._send(_DUMP, content)
        elif at.mariadb:
            self.query(
                f"SET @slave_connect_state = {self.literal(at.gtids.encode())}, "
                "@slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0"
            )
            self._send(_DUMP, struct.pack("<IHI", 4, 0, self._number))
        else:
            data = GtidSet(at.gtids).encoded()
            content = struct.pack("<HIIQI", _BY_GTID, self._number, 0, 4, len(data)) + data
            self._send(_DUMP_BY_GTID, content)

    def _send(self, command: int, content: bytes) -> None:
        try:
            self._sql._execute_command(command, content)
        except (pymysql.Error, OSError) as error:
            raise TransientError(f"{self._place}: {error}") from None
        self._socket = self._sql._sock
        self._socket.setblocking(False)

    def next(self) -> bytes | None:
        """Return the next event; None if none has come yet.

        Raises:
            TransientError, PermanentError: the server has ended the stream.
        """
        data = self._packet()
        if data is None:
            return None
        self.heard = time.monotonic()
        if data[0] == 0:
            return data[1:]
        if data[0] == _ERROR:
            raise self._ended(data)
        raise TransientError(f"{self._place}: the server has ended the stream")

    def _packet(self) -> bytes | None:
        """Return what the next packet has, or several that are one; None if it is not whole yet."""
        parts: list[bytes] = []
        at = self._at
        while True:
            buffer = self._buffer
            while len(buffer) - at < 4 or len(buffer) - at < 4 + _size(buffer, at):
                before = self._at
                if not self._fill():
                    return None
                at -= before - self._at
            size = _size(buffer, at)
            parts.append(bytes(buffer[at + 4 : at + 4 + size]))
            at += 4 + size
            if size < _MOST:
                self._at = at
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def _fill(self) -> bool:
        """Read what has come into the buffer; whether anything has."""
        if self._at > _ROOM:
            del self._buffer[: self._at]
            self._at = 0
        try:
            count = self._socket.recv_into(self._room)
        except (BlockingIOError, ssl.SSLWantReadError, InterruptedError):
            return False
        except OSError as error:
            raise TransientError(f"{self._place}: {error}") from None
        if not count:
            raise TransientError(f"{self._place}: the server has closed the connection")
        self._buffer += self._room[:count]
        return True

    def wait(self, seconds: float) -> None:
        """Wait until the server has said something."""
        if seconds > 0:
            _readable(self._socket, seconds)

    def listen(self) -> None:
        """Read what has come, up to some bytes, while nobody wants it yet.

        Raises:
            TransientError: the server has said nothing for long.
        """
        # With enough to be looked at it need not say more.
        if len(self._buffer) - self._at >= _AHEAD or self._fill():
            self.heard = time.monotonic()
        silent = _SILENCE * self._patience
        if time.monotonic() - self.heard > silent:
            raise TransientError(f"{self._place}: the server has said nothing for {silent:.0f} s")

    def _ended(self, data: bytes) -> Exception:
        (code,) = struct.unpack_from("<H", data, 1)
        said = data[3:].decode(errors="replace")
        said = said[6:] if said.startswith("#") else said
        text = f"{self._place}: {said}"
        if code == _CANT_READ and any(word in said for word in _GONE):
            return GapError(f"the server has let go of changes that were not taken yet ({said})")
        if code == _CANT_READ and not any(word in said for word in _SAME_NUMBER):
            return PermanentError(f"{text}; {START_OVER}")
        return (TransientError if code in _PASSING or code == _CANT_READ else PermanentError)(text)


def _readable(sock: Any, seconds: float) -> bool:
    """Wait until something has come, for so long at most; whether it has."""
    if getattr(sock, "pending", int)():
        return True
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _size(buffer: bytearray, at: int) -> int:
    return buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
