"""Connections: how SQLAlchemy reaches each product, and what its errors mean."""

from __future__ import annotations

import math
import re
import socket
from enum import Enum
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import sqlalchemy as sa
from mainstem import HostTLSOptions, MachineError, OptionError, PipelineError

from mainstem_database.options import DatabaseOptions

_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "sqlite": "sqlite"}
#: The oldest versions whose SQL is enough: ON CONFLICT, window functions, RETURNING.
OLDEST = {
    "postgresql": (12,),
    "mysql": (8, 0, 20),
    "mariadb": (10, 5),
    "sqlite": (3, 35),
}
#: How many statements are kept compiled. Many name the tables of one batch, and never come again.
_STATEMENTS = 32


def make_engine(options: DatabaseOptions) -> sa.Engine:
    """Return an engine whose connections are made when they are first used.

    Raises:
        OptionError: the files of `tls`, or parameters of the URL, can't be used.
    """
    product = options.product
    connect_args = _ARGUMENTS[product](options)
    engine = sa.create_engine(
        _url(options), connect_args=connect_args, pool_size=1, max_overflow=3, hide_parameters=True,
        query_cache_size=_STATEMENTS,
    )  # fmt: skip
    _SETTINGS.get(product, lambda _engine, _options: None)(engine, options)
    return engine


def _url(options: DatabaseOptions) -> sa.URL:
    """Return the URL as SQLAlchemy has it; read once, and here, so that nobody reads it otherwise."""
    driver = _DRIVERS[options.product]
    if options.product == "sqlite":
        return sa.URL.create(driver, database=options.file)
    parts = urlsplit(options.url.get_secret_value())
    query = {
        name: values if len(values) > 1 else values[0]
        for name, values in parse_qs(parts.query).items()
    }
    user, password = (None if p is None else unquote(p) for p in (parts.username, parts.password))
    database = unquote(parts.path.removeprefix("/"))
    return sa.URL.create(driver, user, password, parts.hostname, parts.port, database, query)


def _postgresql(options: DatabaseOptions) -> dict[str, Any]:
    made: dict[str, Any] = {
        "connect_timeout": max(2, math.ceil(options.connect_timeout.total_seconds())),
        "application_name": "mainstem",
        "client_encoding": "UTF8",  # COPY sends it, whatever the database's own is
        **_KEEPALIVES,
    }
    # Rows are read and written in UTC, whatever the server's zone; text forms are ISO.
    settings = {"timezone": "UTC", "datestyle": "ISO", "intervalstyle": "iso_8601"}
    settings["lock_timeout"] = str(max(1, round(options.give_up.total_seconds() * 1000)))
    # The server's side too: a runner that has vanished must not hold its locks for hours.
    settings |= {f"tcp_{name}": str(seconds) for name, seconds in _KEEPALIVES.items()}
    if options.statement_timeout is not None:
        settings["statement_timeout"] = str(round(options.statement_timeout.total_seconds() * 1000))
    query = parse_qs(urlsplit(options.url.get_secret_value()).query)
    ours = [f"-c {name}={value}" for name, value in settings.items()]
    made["options"] = " ".join([*query.get("options", []), *ours])
    for name in ("application_name", "connect_timeout"):
        if name in query:
            made[name] = query[name][-1]
    if tls := options.tls:
        _check_files(tls)
        made["sslmode"] = "verify-full" if tls.verify_host else "verify-ca"
        made["sslrootcert"] = str(tls.ca) if tls.ca else "system"
        if tls.certificate is not None:
            made |= {"sslcert": str(tls.certificate), "sslkey": str(tls.key or tls.certificate)}
    return made


_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
#: The same, as the system calls them.
_TCP = {
    "keepalives_idle": "TCP_KEEPIDLE",
    "keepalives_interval": "TCP_KEEPINTVL",
    "keepalives_count": "TCP_KEEPCNT",
}


#: Parameters of PyMySQL's that a URL may have. Others of TLS weaken it, as text or beside `ssl_ca`.
_OF_MYSQL = {
    "bind_address", "program_name", "read_timeout", "server_public_key", "ssl_ca", "ssl_cert", "ssl_key",
    "unix_socket", "write_timeout",
}  # fmt: skip
#: After so many seconds without a statement MySQL ends a session, and what it has begun.
_IDLE = 600


def _mysql(options: DatabaseOptions) -> dict[str, Any]:
    patience = max(1, math.ceil(options.give_up.total_seconds()))
    settings = {"time_zone": "'+00:00'", "sql_mode": "'TRADITIONAL'"}
    settings |= {"innodb_lock_wait_timeout": f"{patience}", "lock_wait_timeout": f"{patience}"}
    # A runner that has vanished must not hold its locks for hours.
    settings["wait_timeout"] = f"{_IDLE}"
    made: dict[str, Any] = {
        "connect_timeout": max(1, math.ceil(options.connect_timeout.total_seconds())),
        "charset": "utf8mb4",
        "init_command": "SET " + ", ".join(f"{name} = {v}" for name, v in settings.items()),
        "max_allowed_packet": 1 << 30,
    }
    query = parse_qs(urlsplit(options.url.get_secret_value()).query)
    if unknown := query.keys() - _OF_MYSQL:
        names = ", ".join(sorted(unknown))
        raise OptionError(
            f"the URL has parameters that nobody knows, or that would change what is written: {names}",
            option="url",
            hint=f"There are: {', '.join(sorted(_OF_MYSQL))}. How a certificate is checked says `tls`.",
        )
    if options.tls is not None and (undone := [name for name in query if name.startswith("ssl_")]):
        raise OptionError(
            f"the URL has parameters that would undo `tls`: {', '.join(sorted(undone))}",
            option="url",
            hint="Leave them out: `tls` has `ca`, `certificate`, `key` and `verify_host`.",
        )
    # PyMySQL's `connect_timeout` ends when somebody takes the connection, who may then be silent.
    given = query.get("read_timeout", [made["connect_timeout"]])[0]
    try:
        made["read_timeout"] = int(given)
    except ValueError:
        message = "the URL's parameter read_timeout is no whole number of seconds"
        raise OptionError(message, option="url") from None
    if options.tls is not None:
        made["ssl"] = _context(options.tls)
    return made


def _check_files(tls: HostTLSOptions) -> None:
    for file in (tls.ca, tls.certificate, tls.key):
        if file is not None and not file.is_file():
            raise OptionError(f"there is no file {file}", option="tls")


def _context(tls: HostTLSOptions) -> Any:
    _check_files(tls)
    try:
        context = tls.context()
    except OSError as error:
        raise OptionError(f"the files can't be used: {error}", option="tls") from None
    return context


def _sqlite(options: DatabaseOptions) -> dict[str, Any]:
    waits = min(options.connect_timeout, options.give_up)
    return {"timeout": waits.total_seconds(), "isolation_level": None}


_ARGUMENTS = {"postgresql": _postgresql, "mysql": _mysql, "sqlite": _sqlite}


def _set_sqlite(engine: sa.Engine, _options: DatabaseOptions) -> None:
    @sa.event.listens_for(engine, "connect")
    def settings(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        # Less would let a power failure take back a batch that the checkpoint has as written.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _set_mysql(engine: sa.Engine, options: DatabaseOptions) -> None:
    limit = options.statement_timeout
    seconds = limit.total_seconds() if limit else 0.0
    own_timeout = "read_timeout" in engine.url.query

    @sa.event.listens_for(engine, "connect")
    def settings(connection: Any, _record: Any) -> None:
        if not own_timeout:
            connection._read_timeout = None  # it was for connecting
        _keep_alive(connection._sock)
        if not seconds:
            return
        with connection.cursor() as cursor:
            if "MariaDB" in connection.get_server_info():
                cursor.execute("SET max_statement_time = %s", (seconds,))
            else:  # ends SELECTs alone
                cursor.execute("SET max_execution_time = %s", (round(seconds * 1000),))


def _keep_alive(opened: socket.socket) -> None:
    """Let a connection break whose other end is gone without a word, as that of PostgreSQL does."""
    if opened.family == socket.AF_UNIX:
        return
    for name, option in _TCP.items():
        if hasattr(socket, option):  # Linux has all of them
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), _KEEPALIVES[name])


_SETTINGS = {"sqlite": _set_sqlite, "mysql": _set_mysql}


def check_version(connection: sa.Connection) -> None:
    """Refuse a server that lacks what our SQL needs.

    Raises:
        MachineError: it is too old; says which version is needed.
    """
    dialect = connection.dialect
    product = "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name
    found = tuple(part for part in (dialect.server_version_info or ()) if isinstance(part, int))
    if found[: len(OLDEST[product])] < OLDEST[product]:
        has, needs = (".".join(map(str, version)) for version in (found, OLDEST[product]))
        raise MachineError(f"{product} {has} is too old: {needs} or newer is needed")


# -- errors -----------------------------------------------------------------------------------


class Unheld(ValueError):  # noqa: N818
    """A row has a value that the database has no way to hold."""


class Meaning(Enum):
    """What an error of a database is about."""

    ROW = "a row that the database refuses, whatever is tried"
    TRANSIENT = "what may go well when it is retried"
    PERMANENT = "what somebody has to mend"


#: Those of class 42: another makes the same table, its type or its column at the same time.
_POSTGRESQL_TRANSIENT = (
    "08", "40", "42701", "42710", "42P07", "53300", "55P03", "57P01", "57P02", "57P03", "57P05", "25006",
    "25P03", "25P04",
)  # fmt: skip
#: 22 and 23: the row's values; and what triggers and views say.
_POSTGRESQL_ROW = ("22", "23", "54000", "P0001", "44000")
_MYSQL_ROW = {
    1022, 1048, 1062, 1169, 1216, 1217, 1263, 1264, 1265, 1267, 1292, 1364, 1366, 1367, 1369, 1406, 1411,
    1425, 1451, 1452, 1526, 1557, 1644, 1690, 3140, 3819, 4025, 4078,
}  # fmt: skip
_MYSQL_TRANSIENT = {
    1020, 1037, 1040, 1050, 1053, 1060, 1077, 1078, 1079, 1080, 1152, 1156, 1158, 1159, 1160, 1161, 1184,
    1203, 1205, 1213, 1290, 1317, 1927, 2002, 2003, 2006, 2012, 2013, 2055, 4031,
}  # fmt: skip


def meaning(error: BaseException) -> Meaning:
    """Return what an error of SQLAlchemy's, or of a driver, is about."""
    inner = original(error)
    module = type(inner).__module__.partition(".")[0]
    return {"psycopg": _of_psycopg, "pymysql": _of_pymysql, "sqlite3": _of_sqlite}.get(
        module, _of_others
    )(inner)


def original(error: BaseException) -> BaseException:
    """Return the driver's error inside SQLAlchemy's."""
    inner = getattr(error, "orig", None)
    return inner if isinstance(inner, BaseException) else error


def _of_psycopg(error: Any) -> Meaning:
    import psycopg

    state = error.sqlstate
    if state is None:  # not from the server
        # It could not connect at all: the server's word is in the text alone.
        lasting = any(word in str(error) for word in _REFUSED)
        passing = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        if isinstance(error, psycopg.DataError):
            return Meaning.ROW
        return Meaning.TRANSIENT if passing and not lasting else Meaning.PERMANENT
    if state.startswith(_POSTGRESQL_ROW):
        return Meaning.ROW
    return Meaning.TRANSIENT if state.startswith(_POSTGRESQL_TRANSIENT) else Meaning.PERMANENT


#: Parts of what PostgreSQL and its client say when retrying does not help.
_REFUSED = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "no password supplied",
    "certificate",
    "private key file",
    "does not support SSL",
    " alert ",
    "permission denied",
    "not permitted to log in",
)


def _of_pymysql(error: Any) -> Meaning:
    code = error.args[0] if error.args else None
    if code in _MYSQL_ROW:
        return Meaning.ROW
    if code in _MYSQL_TRANSIENT or code == 0:  # 0: the connection is already closed
        # A connection that is lost speaks of SSL too.
        refused = any(word in str(error).lower() for word in ("certificate", " alert "))
        return Meaning.PERMANENT if refused else Meaning.TRANSIENT
    if "can not be used with MySQL" in str(error):  # nan and inf
        return Meaning.ROW
    return Meaning.PERMANENT


def _of_sqlite(error: Any) -> Meaning:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_TOOBIG")):
        return Meaning.ROW
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")):
        return Meaning.TRANSIENT
    return Meaning.PERMANENT


def _of_others(error: BaseException) -> Meaning:
    if isinstance(error, OverflowError | UnicodeError | Unheld):
        return Meaning.ROW
    if isinstance(error, OSError):
        return Meaning.TRANSIENT
    return Meaning.PERMANENT


def words(error: BaseException) -> str:
    """Return what a database says is wrong, in one line without values of rows where it can."""
    told: BaseException | None = error
    while told is not None:
        if found := _words(original(told)):
            return found
        # Undoing what a lost connection began says nothing of why it was lost.
        told = told.__context__
    return type(original(error)).__name__


#: Where MySQL quotes a row's value.
_VALUE = re.compile(r"\b((?:entry|value):?) '(?:.*'(?= for )|.*'$)")


def _words(inner: BaseException) -> str:
    diagnosis = getattr(inner, "diag", None)
    if diagnosis is not None and diagnosis.message_primary:
        return str(diagnosis.message_primary)
    if len(inner.args) > 1 and isinstance(inner.args[0], int):
        return _VALUE.sub(r"\1 '...'", " ".join(str(inner.args[1]).split()))
    return " ".join(str(inner).split())


def of_a_database(error: BaseException) -> bool:
    """Whether an error came from a database, its driver, or this package."""
    return type(original(error)).__module__.partition(".")[0] in _DATABASES


_DATABASES = (
    "psycopg",
    "pymysql",
    "sqlite3",
    "sqlalchemy",
    "mainstem_database",
    "mainstem_database_sql",
)


def failure(error: BaseException, options: DatabaseOptions) -> PipelineError:
    """Return the error that a user is shown."""
    return PipelineError(f"{options.place}: {words(error)}")
