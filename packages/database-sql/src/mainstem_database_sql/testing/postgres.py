"""PostgreSQL, with logical decoding switched on: the one that is installed, and version 18."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from mainstem_testkit.server import Server, ServerMissing, fetched, receive

_USER = "postgres"
_SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
wal_level = logical
max_replication_slots = 20
max_wal_senders = 20
# A stop waits for who reads the log, and is not answered by one that a test holds still.
wal_sender_timeout = 5s
"""


class Postgres(Server):
    """A PostgreSQL server with the superuser `postgres`, whom it trusts without a password."""

    name = "postgres"
    stop_signal = signal.SIGINT  # "fast": SIGTERM waits until all clients have left

    @property
    def url(self) -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/postgres"

    def prepare(self) -> None:
        self.program("postgres")
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(self._data.parent, _USER, _USER)
        initdb = [self.program("initdb"), "--no-sync", "--auth=trust", "-U", _USER, "-E", "UTF8"]
        command = [*self._as_user(), *initdb, "-D", str(self._data)]
        made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        if made.returncode:
            raise ServerMissing(f"postgres: initdb failed:\n{made.stdout}{made.stderr}")
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(f"{_SETTINGS}port = {self.port}\n")

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        return [*self._as_user(), self.program("postgres"), "-D", str(self._data)], {}

    def answers(self) -> bool:
        """Log in, and see whether the server is ready for a query (its protocol, version 3)."""
        body = struct.pack("!i", 196608) + f"user\0{_USER}\0database\0postgres\0\0".encode()
        with self.connect() as connection:
            connection.sendall(struct.pack("!i", len(body) + 4) + body)
            while True:
                kind = receive(connection, 1)
                (length,) = struct.unpack("!i", receive(connection, 4))
                receive(connection, length - 4)
                if kind in (b"Z", b"E"):
                    return kind == b"Z"

    def program(self, name: str) -> str:
        """Return the path of one of the server's programs."""
        return _binary(name)

    def sql(self, text: str) -> str:
        """Run SQL by `psql`; return the rows, one a line, columns separated by `|`."""
        command = [
            _binary("psql"),
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            text,
            self.url,
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    @cached_property
    def _data(self) -> Path:
        """Where the data is: a folder of its own that `postgres` can reach, also if root runs this."""
        place = tempfile.mkdtemp(prefix="mainstem-postgres-")
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        return Path(place, "data")

    def _as_user(self) -> list[str]:
        if os.geteuid() != 0:
            return []
        change = ["setpriv", "--reuid", _USER, "--regid", _USER, "--clear-groups"]
        return [*change, "env", "-C", str(self._data.parent), f"HOME={self._data.parent}"]


class Postgres18(Postgres):
    """A PostgreSQL 18 server with the superuser `postgres`, whom it trusts without a password."""

    name = "postgres18"

    def program(self, name: str) -> str:
        """Return the path of one of the server's programs; `services/postgresql.sh` fetches them."""
        return str(self._native / "bin" / name)

    @cached_property
    def _native(self) -> Path:
        """Where they are: a copy of its own where root has fetched them to where only root may look."""
        there = fetched("postgresql", "native", "PostgreSQL 18")
        if os.geteuid() != 0 or all(place.stat().st_mode & stat.S_IXOTH for place in there.parents):
            return there
        return Path(shutil.copytree(there, self._data.parent / "native", symlinks=True))


class Standby(Postgres):
    """A standby of a server that runs, until it is promoted.

    Args:
        primary: the server.
        settings: lines of its configuration.
    """

    name = "standby"

    def __init__(self, folder: Path, primary: Postgres, settings: str = "") -> None:
        super().__init__(folder)
        self._primary = primary
        self._settings = settings

    def program(self, name: str) -> str:
        return self._primary.program(name)

    def prepare(self) -> None:
        """Copy the server's data, as its page on low-level backups has it."""
        import psycopg

        with psycopg.connect(self._primary.url, autocommit=True) as connection:
            connection.execute("SELECT pg_backup_start('standby', fast => true)")
            leave = shutil.ignore_patterns("postmaster.*", "pgsql_tmp*", "pg_replslot")
            shutil.copytree(self._primary._data, self._data, ignore=leave, copy_function=_copy)
            (self._data / "pg_replslot").mkdir(mode=0o700)
            (label,) = connection.execute("SELECT labelfile FROM pg_backup_stop(false)").fetchall()
        (self._data / "backup_label").write_text(label[0])
        (self._data / "standby.signal").touch()
        self.set(
            f"port = {self.port}\nprimary_conninfo = 'host=127.0.0.1 port={self._primary.port} "
            f"user={_USER} dbname=postgres'\n{self._settings}"
        )
        if os.geteuid() == 0:
            for place in (self._data.parent, *self._data.parent.rglob("*")):
                shutil.chown(place, _USER, _USER)

    def set(self, lines: str) -> None:
        """Add to its configuration, for its next start."""
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(f"{lines}\n")


def _copy(source: str, target: str) -> None:
    with suppress(FileNotFoundError):  # a server that runs removes some
        shutil.copy2(source, target)


def _binary(name: str) -> str:
    """Return the path of one of PostgreSQL's programs, of the newest version that is installed."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"),
        key=lambda path: int(path.parts[-3]) if path.parts[-3].isdigit() else 0,
    )
    found = str(versions[-1]) if versions else shutil.which(name)
    if found is None:
        raise ServerMissing("postgres is not installed: apt-get install postgresql")
    return found
