"""Test server: MySQL, with its log of changed rows switched on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql
from mainstem_testkit.server import Server, ServerFailed, fetched, receive

_DATABASE = "test"
#: What a killed process has written the kernel still has, so nothing need be forced to the disk.
_SPEED = ["--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0", "--innodb-buffer-pool-size=64M"]
_LOG = [
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
]


class MySQL(Server):
    """A MySQL 8 server with a database `test` and the superuser `root`, who needs no password."""

    name = "mysql"
    #: That it is known by among its replicas, and further settings.
    number = 1
    settings: Sequence[str] = ()

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/{_DATABASE}"

    def prepare(self) -> None:
        home = _home()
        command = [
            str(home / "bin" / "mysqld"),
            "--no-defaults",
            "--initialize-insecure",
            *self._usual(home),
        ]
        made = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.folder, env=_env(home)
        )
        if made.returncode:
            raise ServerFailed(f"mysqld --initialize failed:\n{made.stdout}{made.stderr}")
        start = self.folder / "start.sql"
        start.write_text(
            f"CREATE DATABASE IF NOT EXISTS {_DATABASE} CHARACTER SET utf8mb4;\n"
            "CREATE USER IF NOT EXISTS root@'127.0.0.1' IDENTIFIED BY '';\n"
            "GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
        )

    def _usual(self, home: Path) -> list[str]:
        return [
            *(["--user=root"] if os.geteuid() == 0 else []),  # as root it only runs if told to
            f"--basedir={home}",
            f"--datadir={self.folder / 'data'}",
            f"--lc-messages-dir={home / 'share'}",
        ]

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        home = _home()
        return [
            str(home / "bin" / "mysqld"),
            "--no-defaults",
            *self._usual(home),
            f"--init-file={self.folder / 'start.sql'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--socket=socket",  # in the data folder, whose whole path may be too long for one
            f"--server-id={self.number}",
            "--mysqlx=OFF",
            "--skip-name-resolve",
            "--performance-schema=OFF",
            "--log-bin=changes",
            *_SPEED,
            *_LOG,
            *self.settings,
        ], {"LD_LIBRARY_PATH": str(home / "lib")}

    def answers(self) -> bool:
        """Read the server's greeting: its first packet, of its protocol's version 10."""
        with self.connect() as connection:
            length = int.from_bytes(receive(connection, 4)[:3], "little")
            return receive(connection, length)[:1] == b"\x0a"

    def sql(self, text: str) -> list[Any]:
        """Run a statement; return the rows."""
        with (
            pymysql.connect(
                host="127.0.0.1", port=self.port, user="root", database=_DATABASE, autocommit=True
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(text)
            return list(cursor.fetchall())


def _home() -> Path:
    """Return where the server is; `services/mysql.sh` fetches it."""
    return fetched("mysql", "bin/mysqld").parents[1]


def _env(home: Path) -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": str(home / "lib")}
