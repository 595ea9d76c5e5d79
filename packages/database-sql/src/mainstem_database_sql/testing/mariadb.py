"""MariaDB, with its log of changed rows switched on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from mainstem_testkit.server import Server, ServerFailed, ServerMissing, receive

_USER = "root"
_DATABASE = "test"
_STORE = ["--innodb-log-file-size=32M", "--innodb-buffer-pool-size=64M"]
# What a killed process has written the kernel still has, so nothing need be forced to the disk.
# It must have been written, though: with innodb-flush-log-at-trx-commit=0 the last second of
# commits would be in the process's own memory, and a kill would lose it.
_SPEED = ["--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0", "--debug-no-sync"]
_LOG = [
    "--log-bin=changes",
    "--server-id=1",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
    "--gtid-strict-mode=1",
]


class MariaDB(Server):
    """A MariaDB server with a database `test` and the superuser `root`, who needs no password."""

    name = "mariadb"

    @property
    def url(self) -> str:
        return f"mysql://{_USER}@127.0.0.1:{self.port}/{_DATABASE}"

    def prepare(self) -> None:
        _binary("mariadbd")
        database = self.folder / "database.sql"
        database.write_text(f"CREATE DATABASE {_DATABASE} CHARACTER SET utf8mb4;\n")
        # No `--user` here: with it the program changes owners in the folder where MariaDB is installed.
        command = [
            _binary("mariadb-install-db"),
            "--no-defaults",
            f"--datadir={self._data}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",  # its rights are everybody's
            "--skip-name-resolve",
            f"--extra-file={database}",
            *_STORE,
            *_SPEED,
        ]
        made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        if made.returncode:
            raise ServerFailed(f"mariadb-install-db failed:\n{made.stdout}{made.stderr}")

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        return [
            _binary("mariadbd"),
            "--no-defaults",
            *(["--user=root"] if os.geteuid() == 0 else []),  # as root it only runs if told to
            f"--datadir={self._data}",
            f"--tmpdir={self._data}",
            "--socket=socket",  # in the data folder, whose whole path may be too long for one
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            "--skip-name-resolve",
            "--character-set-server=utf8mb4",
            *_STORE,
            *_SPEED,
            *_LOG,
        ], {}

    def answers(self) -> bool:
        """Read the server's greeting: its first packet, of its protocol's version 10."""
        with self.connect() as connection:
            length = int.from_bytes(receive(connection, 4)[:3], "little")
            return receive(connection, length)[:1] == b"\x0a"

    def sql(self, text: str) -> str:
        r"""Run SQL by `mariadb`; return the rows, one a line, columns separated by tabs.

        Tabs and line breaks within a value come as `\t` and `\n`, null as `NULL`.
        """
        command = [
            _binary("mariadb"),
            "--no-defaults",
            "--protocol=tcp",
            "--host=127.0.0.1",
            f"--port={self.port}",
            f"--user={_USER}",
            "--default-character-set=utf8mb4",
            "--batch",
            "--skip-column-names",
            _DATABASE,
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True, input=text)
        return done.stdout.removesuffix("\n")

    @property
    def _data(self) -> Path:
        return self.folder / "data"


def _binary(name: str) -> str:
    """Return the path of one of MariaDB's programs; the server is often where only root looks."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise ServerMissing("mariadb is not installed: apt-get install mariadb-server")
    return found
