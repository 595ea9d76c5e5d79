"""Debezium beside our sources: what it tells of the same changes."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mainstem_ingress import Message
from mainstem_testkit.server import ServerFailed, fetched

from mainstem_cdc.testing import Taking, row_of

#: How long it may take until it tells something, in seconds.
_PATIENCE = 120.0
_KINDS = {"c": "insert", "r": "insert", "u": "update_postimage", "d": "delete"}


class Told(NamedTuple):
    """A change.

    Attributes:
        at: when it was told, in seconds.
        row: the values by column; of a delete the key alone.
    """

    at: float
    table: str
    kind: str
    key: tuple[Any, ...]
    row: Mapping[str, Any]


class Debezium:
    """Debezium's engine, from entering on.

    Args:
        folder: for its files.
        properties: of its connector.

    Raises:
        ServerMissing: it is not installed.
    """

    def __init__(self, folder: Path, properties: Mapping[str, str]) -> None:
        self._folder = folder
        given = {
            "name": "beside",
            "topic.prefix": "beside",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "1000",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(folder / "history"),
            "converter.schemas.enable": "false",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "tombstones.on.delete": "false",
            "decimal.handling.mode": "string",
            "poll.interval.ms": "20",
            **properties,
        }
        lines = [f"{name}={value}" for name, value in given.items()]
        (folder / "engine.properties").write_text("\n".join(lines))
        self._out = folder / "told"

    def __enter__(self) -> Debezium:
        engine = str(Path(__file__).with_name("Engine.java"))
        command = [
            "java",
            "-Xmx512m",
            "-cp",
            f"{_libraries()}/*",
            engine,
            "engine.properties",
            "told",
        ]
        self._log = (self._folder / "log").open("wb")
        self._process = subprocess.Popen(
            command, cwd=self._folder, stdout=self._log, stderr=subprocess.STDOUT
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def told(self) -> list[Told]:
        """Return what it has told so far."""
        if self._process.poll() is not None:
            raise ServerFailed((self._folder / "log").read_text()[-5000:])
        found = []
        for line in self._lines():
            at, where, key, value = line.split("\t")
            if where.count(".") < 2:  # of tables alone
                continue
            change = json.loads(value)
            keys = json.loads(key)
            row = change["after"] if change["op"] != "d" else keys
            table = where.rpartition(".")[2]
            kind = _KINDS[change["op"]]
            found.append(Told(int(at) / 1e9, table, kind, tuple(keys.values()), row))
        return found

    def _lines(self) -> list[str]:
        """Return the lines that are written whole."""
        written = self._out.read_bytes() if self._out.exists() else b""
        return [line.decode() for line in written.split(b"\n")[:-1]]

    def seconds(self, rows: int) -> float:
        """Return how long it took from its first change to that of a number, once it has told that."""
        until = time.monotonic() + _PATIENCE
        while len(lines := self._lines()) < rows:
            if time.monotonic() > until or self._process.poll() is not None:
                raise ServerFailed((self._folder / "log").read_text()[-5000:])
            time.sleep(0.5)
        first, *_, last = lines[:rows]
        return (int(last.partition("\t")[0]) - int(first.partition("\t")[0])) / 1e9

    def until(self, done: Callable[[Sequence[Told]], bool]) -> list[Told]:
        """Return what it has told when something is so of that."""
        until = time.monotonic() + _PATIENCE
        while not done(found := self.told()):
            if time.monotonic() > until:
                raise ServerFailed((self._folder / "log").read_text()[-5000:])
            time.sleep(0.1)
        return found


def _libraries() -> Path:
    """Return where its jars are; `services/debezium.sh` fetches them."""
    return fetched("debezium", called="Debezium")


#: Tables of the comparison, and what is read of them.
MADE = (
    "CREATE TABLE one (id INT PRIMARY KEY, n BIGINT, t VARCHAR(40))",
    "CREATE TABLE two (a INT, b VARCHAR(9), n DECIMAL(12, 3), PRIMARY KEY (a, b))",
    "CREATE TABLE ready (id INT PRIMARY KEY)",
)
TABLES = {
    "one": {"key": ["id"], "schema": "id INT, n BIGINT, t STRING"},
    "two": {"key": ["a", "b"], "schema": "a INT, b STRING, n STRING"},
    "ready": {"key": ["id"], "schema": "id INT"},
}


def write_at_random(run: Callable[[str], Any], dice: random.Random, transactions: int) -> None:
    """Insert, update, move and delete rows, in transactions of which some are rolled back.

    Args:
        run: runs a statement, all in one session.
    """
    for _ in range(transactions):
        run("BEGIN")
        for _ in range(dice.choice((1, 1, 3, 10, 40))):
            run(_statement(dice))
        run(dice.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))


def _statement(dice: random.Random) -> str:
    key, other, n = dice.randrange(20), dice.randrange(20), dice.randrange(10**6)
    text = (
        "".join(dice.choices("aé\\'\n\tZ", k=dice.randrange(6)))
        .replace("\\", "")
        .replace("'", "''")
    )
    free = f"AND {other} NOT IN (SELECT id FROM (SELECT id FROM one) AS taken)"
    one = f"INSERT INTO one SELECT {key}, {n}, '{text}' FROM (SELECT 1 AS x) AS y"
    two = f"INSERT INTO two SELECT {key % 5}, 'b{other % 4}', {n}.5 FROM (SELECT 1 AS x) AS y"
    return dice.choice(
        (
            f"{one} WHERE {key} NOT IN (SELECT id FROM one)",
            f"UPDATE one SET n = {n} WHERE id = {key}",
            f"UPDATE one SET t = NULL WHERE id < {key}",
            f"UPDATE one SET id = {other} WHERE id = {key} {free}",
            f"DELETE FROM one WHERE id = {key}",
            f"DELETE FROM two WHERE a = {key % 5} AND b = 'b{other % 4}'",
            f"DELETE FROM two WHERE a = {key % 5}",
            f"UPDATE two SET n = {n}.125 WHERE b = 'b{other % 4}'",
            f"{two} WHERE ({key % 5}, 'b{other % 4}') NOT IN (SELECT a, b FROM two)",
        )
    )


Changes = dict[tuple[Any, ...], list[tuple[str, dict[str, Any] | None]]]


def by_key(told: Iterable[tuple[str, str, tuple[Any, ...], Mapping[str, Any]]]) -> Changes:
    """Return the changes of each key in their order: table, kind, key and row of each are given."""
    found: Changes = defaultdict(list)
    for table, kind, key, row in told:
        found[table, *key].append((kind, None if kind == "delete" else dict(row)))
    return found


def ours(stored: Sequence[Message]) -> Changes:
    """Return the same of what a receiver has given."""
    told = []
    for message in stored:
        table, row = str(message.extra[0]), row_of(message)
        values = {name: value for name, value in row.items() if not name.startswith("_")}
        key = tuple(values[name] for name in TABLES[table]["key"])
        told.append((table, row["_change_type"], key, values))
    return by_key(told)


def check_beside(
    folder: Path,
    properties: Mapping[str, str],
    make: Callable[[Mapping[str, Any]], Taking],
    run: Callable[[str], Any],
    dice: random.Random,
    transactions: int = 150,
) -> None:
    """Hold a source beside Debezium, on the same random writes.

    Args:
        folder: for Debezium's files.
        properties: of its connector, which begins with changes.
        make: returns a receiver of such tables, which begins with changes.
        run: runs a statement, all in one session.

    Raises:
        AssertionError: a key's changes are not the same, in the same order.
    """
    for statement in MADE:
        run(statement)
    with make(TABLES) as taking, Debezium(folder, properties) as other:
        number = 0

        def begun(found: Sequence[Told]) -> bool:
            nonlocal number
            number += 1
            run(f"INSERT INTO ready VALUES ({number})")
            taking.take()
            return bool(found)

        other.until(begun)
        write_at_random(run, dice, transactions)
        run("INSERT INTO ready VALUES (-1)")
        last = ("ready", -1)
        found = other.until(lambda found: last in {(each.table, *each.key) for each in found})
        taking.until(lambda: last in ours(taking.stored))
    theirs = by_key(each[1:] for each in found if each.table != "ready")
    mine = {key: told for key, told in ours(taking.stored).items() if key[0] != "ready"}
    assert sum(map(len, theirs.values())) > transactions
    differing = {key for key in {*theirs, *mine} if theirs.get(key) != mine.get(key)}
    example = {key: (theirs.get(key), mine.get(key)) for key in sorted(differing, key=str)[:2]}
    assert not differing, (
        f"{len(differing)} of {len(theirs)} keys differ: Debezium, ours: {example}"
    )
