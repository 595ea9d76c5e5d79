"""What tests of a source of change data capture need: a receiver, and what a log would store of it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mainstem import PermanentError, TransientError
from mainstem_ingress import Columns, Message, Rows
from mainstem_ingress import row_of as as_extra
from mainstem_ingress.log import Log
from mainstem_ingress.losses import loss_of

from mainstem_cdc.options import ALL
from mainstem_cdc.receiver import CaptureReceiver
from mainstem_cdc.requests import Requests

#: How long something may take to come, in seconds.
PATIENCE = 30.0


class Taking:
    """A receiver, and what a log would have stored of it.

    Args:
        cursor: where it goes on.
    """

    def __init__(self, receiver: CaptureReceiver, cursor: str | None = None) -> None:
        self.receiver = receiver
        self.stored: list[Message] = []
        self.cursor = cursor

    def __enter__(self) -> Taking:
        try:
            self.receiver.connect(self.cursor)
        except BaseException:
            self.receiver.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.receiver.close()

    def take(self, seconds: float = 0.05) -> None:
        """Take once, and store."""
        found: Any = self.receiver.take(seconds)
        self.stored += taken(self.receiver, found)
        self.cursor = self.receiver.cursor()
        if found:
            self.receiver.acknowledge(found)

    def until(self, done: Callable[[], bool]) -> None:
        """Take until something is so."""
        until = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < until, self.stored[-3:]
            self.take()

    def load(self) -> None:
        """Take until all is here that there was when it began."""
        self.until(lambda: bool(self.receiver.caught_up()))

    def some(self, count: int) -> list[Message]:
        """Return so many messages, none of which was returned before."""
        self.until(lambda: len(self.stored) >= count)
        found, self.stored = self.stored[:count], self.stored[count:]
        return found


def taken(receiver: CaptureReceiver, found: Any) -> list[Message]:
    """Return a message for each row, with the row's values as `extra`, as a log would have them."""
    if not isinstance(found, Rows):
        return list(found)
    tables = receiver.options.shapes()
    made: list[Message] = []
    for part in found.parts:
        if isinstance(part, Columns):
            rows: Any = part.rows
            made += [
                Message(
                    None, timestamp=at, origin=part.origin, extra=as_extra(tables, part.table, row)
                )
                for at, row in zip(part.timestamps, rows.to_pylist(), strict=True)
            ]
        else:
            made += part
    return made


def changes(messages: Iterable[Message]) -> list[tuple[Any, ...]]:
    """Return the rows of tables: the kind of the change, and the values without reserved ones."""
    found = []
    for message in messages:
        assert message.refused is None, message.refused
        row = row_of(message)
        values = (value for name, value in row.items() if not name.startswith("_"))
        found.append((row["_change_type"], *values))
    return found


def versions(messages: Iterable[Message]) -> list[str]:
    """Return the sequences of rows."""
    return [row_of(message)["_commit_version"] for message in messages]


def row_of(message: Message) -> dict[str, Any]:
    """Return the row of a message, with reserved columns."""
    return next(each for each in message.extra[1:] if each is not None)


# -- what every source must stand -----------------------------------------------------------------

#: Returns a receiver that goes on from a cursor.
Make = Callable[[str | None], Taking]


def broken_off(make: Make, first: Taking, count: int, calls: int = 3) -> list[Message]:
    """Take a few times and break off, again and again, until so many messages are stored; return them.

    Args:
        first: what was taken before.
    """
    stored, cursor, lives = list(first.stored), first.cursor, 0
    while len(stored) < count:
        with make(cursor) as taking:
            for _ in range(calls):
                taking.take()
        stored, cursor, lives = stored + taking.stored, taking.cursor, lives + 1
        assert lives < 20 + count, f"{len(stored)} of {count} after {lives} lives"
    assert lives > 2, "nothing was broken off"
    return stored


def live(make: Make, dice: random.Random, lives: int = 12) -> tuple[list[Message], str | None]:
    """Let receivers die at random, with what they have not stored, until all tables are read.

    Args:
        lives: how many there are at least.

    Returns:
        what was stored, and where it goes on.
    """
    stored: list[Message] = []
    cursor, loading, lived = None, True, 0
    while lived < lives or loading:
        with make(cursor) as taking:
            receiver = taking.receiver
            for _ in range(dice.randrange(2, 15)):
                # A group is what several calls have given, and is stored with the place behind it.
                group: list[Any] = [receiver.take(0.02) for _ in range(dice.randrange(1, 4))]
                if dice.random() < 0.1:  # killed before it was stored
                    break
                for found in group:
                    stored += taken(receiver, found)
                cursor = receiver.cursor()
                if last := next((found for found in reversed(group) if found), None):
                    receiver.acknowledge(last)
            loading = receiver.facts()["loading"]
        lived += 1
        assert lived < 200, "the tables are never read"
    return stored, cursor


def check_tables(
    stored: Sequence[Message], keys: Mapping[str, Sequence[str]], there: Mapping[str, Any]
) -> None:
    """Hold what was stored against tables.

    Args:
        keys: the keys of the tables, by name.
        there: by table, by key as a tuple, the value of the last column.

    Raises:
        AssertionError: the messages do not make the tables, one after another or by their sequence; or a
            change came twice, or out of order.
    """
    by_sequence = sorted(
        range(len(stored)), key=lambda at: (row_of(stored[at])["_commit_version"], at)
    )
    for order in (range(len(stored)), by_sequence):
        made: dict[str, dict[Any, Any]] = {name: {} for name in keys}
        for at in order:
            name, row = stored[at].extra[0], row_of(stored[at])
            key = tuple(row[column] for column in keys[name])
            if row["_change_type"] == "delete":
                made[name].pop(key, None)
            else:
                made[name][key] = next(v for c, v in reversed(row.items()) if not c.startswith("_"))
        wrong = {n: set(made[n].items()) ^ set(there[n].items()) for n in keys}
        assert not any(wrong.values()), wrong
    for name, columns in keys.items():
        rows = [row_of(message) for message in stored if message.extra[0] == name]
        rows = [row for row in rows if not row["_commit_version"].endswith("-00000000")]
        told = [row["_commit_version"] for row in rows]
        assert told == sorted(told), f"{name}: not in order"
        # What moves a row is one change of two keys.
        each = [(r["_commit_version"], r["_change_type"], *(r[c] for c in columns)) for r in rows]
        assert len(each) == len(set(each)), f"{name}: a change came twice"


def check_values(
    make: Callable[[dict[str, Any]], Taking],
    sql: Callable[[str], Any],
    values: Sequence[tuple[str, str, str, Any]],
    refused: Sequence[tuple[str, str, str, str]],
) -> None:
    """Hold values against what comes of them, from a table and from the log.

    Args:
        make: returns a receiver of such `tables`.
        sql: runs a statement.
        values: type in the database, value in SQL, type in the document, what comes.
        refused: the same, with why nothing comes.

    Raises:
        AssertionError: another value came, or another type of Python's; null did not come as null; or a
            row was not refused with the column and why.
    """
    cases = [*values, *refused]
    columns = ", ".join(f"c{at} {case[0]}" for at, case in enumerate(cases))
    sql(f"CREATE TABLE wide (id INT PRIMARY KEY, {columns})")

    def write(number: int, named: Sequence[int]) -> None:
        names = ", ".join(f"c{at}" for at in named)
        chosen = ", ".join(cases[at][1] for at in named)
        sql(f"INSERT INTO wide (id, {names}) VALUES ({number}, {chosen})")

    write(1, range(len(values)))
    for at in range(len(values), len(cases)):
        write(at + 2, [at])
    schema = ", ".join(f"c{at} {case[2]}" for at, case in enumerate(cases))
    with make({"wide": {"key": ["id"], "schema": f"id INT, {schema}"}}) as taking:
        taking.load()
        sql("UPDATE wide SET id = id + 1000")
        found = taking.some(3 * (len(refused) + 1))
    reasons = sorted(message.refused for message in found if message.refused is not None)
    good = changes(message for message in found if message.refused is None)
    assert sum(change[0] == "delete" for change in good) == len(refused) + 1
    rows = [change for change in good if change[0] == "insert"]
    assert [row[1] for row in rows] == [1, 1001], reasons
    for row in rows:
        for at, case in enumerate(values):
            assert row[2 + at] == case[3], (row[1], case)
            assert type(row[2 + at]) is type(case[3]), (row[1], case)
        assert set(row[2 + len(values) :]) <= {None}
    wrong = [f"c{at}: {case[3]}" for at, case in enumerate(cases) if at >= len(values)]
    assert reasons == sorted(2 * wrong)


def check_read_again(make: Callable[..., Taking], sql: Callable[[str], Any], folder: Path) -> None:
    """Let a table be read again while its changes go on.

    Args:
        make: returns a receiver of the options that it is given.
        sql: runs a statement.
        folder: of a log.

    Raises:
        AssertionError: rows came that were not asked for, or others, or below those before; a request was
            forgotten before it was stored, or not after; or a condition that the server does not
            understand did more than end its own snapshot.
    """
    sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(20))")
    sql("INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    log = Log(folder)
    log.receiver(0).mkdir(parents=True)
    requests = Requests(log.receiver(0))
    schema = "id BIGINT, name STRING, late STRING"
    tables = {"orders": {"key": ["id"], "schema": schema}}
    with make(tables=tables, chunk_rows=1, on_missing_column="null") as taking:
        receiver: Any = taking.receiver
        receiver.log = log
        receiver.stored_cursors = lambda: {} if taking.cursor is None else {0: taking.cursor}
        taking.load()
        before = taking.some(3)
        sql("UPDATE orders SET name = 'x' WHERE id = 3")
        (change,) = taking.some(1)
        requests.put("snapshot", ["orders"], "id >= 2 -- of late", 0)
        again = taking.some(2)
        assert changes(again) == [("insert", 2, "b", None), ("insert", 3, "x", None)]
        told = versions([*before, change, *again])
        assert told == sorted(told)
        taking.until(lambda: not requests.waiting())
        requests.put("snapshot", ["orders"], "nonsense = 1", 0)
        taking.until(lambda: "failed" in receiver.facts())
        assert "nonsense" in receiver.facts()["failed"]
        # A column that has come since is read too.
        sql("ALTER TABLE orders ADD late VARCHAR(9)")
        sql("INSERT INTO orders VALUES (4, 'd', 'now')")
        assert changes(taking.some(1)) == [("insert", 4, "d", "now")]
        requests.put("pause", [], None, 0)
        requests.put("snapshot", ["orders"], None, 0)
        taking.until(lambda: bool(receiver.facts().get("snapshot", {}).get("paused")))
        assert not taking.stored
        assert receiver.caught_up()
        requests.put("resume", [], None, 0)
        found = changes(taking.some(4))
        assert [(row[1], row[3]) for row in found] == [(1, None), (2, None), (3, None), (4, "now")]


def check_raw(make: Callable[..., Taking], sql: Callable[[str], Any], namespace: str) -> None:
    """Take every change as it is in the log, of a table too that comes later and that nobody names.

    Args:
        make: returns a receiver of the options that it is given.
        sql: runs a statement, all in one session.
        namespace: of the tables.

    Raises:
        AssertionError: `all` has not each change in the order of commits, with its transaction; or tables
            of the document lack one, or have another.
    """
    sql("CREATE TABLE orders (id INT PRIMARY KEY, n INT)")
    sql("CREATE TABLE items (id INT PRIMARY KEY, n INT)")
    sql("INSERT INTO orders VALUES (1, 10)")
    tables = {
        "orders": {"key": ["id"], "schema": "id INT, n INT", "transaction": "tx"},
        "items": {"key": ["id"], "schema": "id INT, n TINYINT"},
    }
    with make(tables=tables, all=[f"{namespace}.later*"]) as taking:
        taking.load()
        (first,) = (row_of(m) for m in taking.some(2) if m.extra[0] == ALL)
        assert first["transaction"] is None
        sql("CREATE TABLE later_on (id INT PRIMARY KEY, t VARCHAR(9))")
        sql("CREATE TABLE nobodys (id INT PRIMARY KEY)")
        sql("BEGIN")
        for statement in (
            "UPDATE orders SET n = 11",
            "INSERT INTO items VALUES (5, 50)",
            "INSERT INTO later_on VALUES (7, 'seven')",
            "INSERT INTO nobodys VALUES (1)",
        ):
            sql(statement)
        sql("COMMIT")
        sql("UPDATE later_on SET id = 8")
        sql("INSERT INTO items VALUES (6, 600)")
        sql("DELETE FROM orders")
        taking.until(lambda: sum(m.extra[0] == "orders" for m in taking.stored) == 2)
    rows = [row_of(m) for m in taking.stored if m.extra[0] == ALL]
    found = [
        (
            r["table"].removeprefix(f"{namespace}."),
            r["change"], json.loads(r["key"]), json.loads(r["row"]),
        )
        for r in rows
    ]  # fmt: skip
    # Of a table that nobody names, as much as the log has.
    assert found[3][3].pop("t", "seven") == "seven"
    # In a transaction, each table's changes are together.
    assert found == [
        ("orders", "update_postimage", {"id": "1"}, {"id": "1", "n": "11"}),
        ("items", "insert", {"id": "5"}, {"id": "5", "n": "50"}),
        ("later_on", "insert", {"id": "7"}, {"id": "7", "t": "seven"}),
        ("later_on", "delete", {"id": "7"}, {"id": "7"}),
        ("later_on", "insert", {"id": "8"}, {"id": "8", "t": "seven"}),
        ("items", "insert", {"id": "6"}, {"id": "6", "n": "600"}),
        ("orders", "delete", {"id": "1"}, {"id": "1", "n": None}),
    ], found
    transactions = [r["transaction"] for r in rows]
    assert None not in transactions
    numbers = [sorted(set(transactions)).index(each) for each in transactions]
    assert len(set(transactions)) == 4, transactions
    assert [numbers.count(each) for each in dict.fromkeys(numbers)] == [3, 2, 1, 1]
    told = [r["sequence"] for r in rows]
    assert told == sorted(told)
    assert all(r["committed_at"] is not None for r in rows)
    orders = [row_of(m) for m in taking.stored if m.extra[0] == "orders"]
    assert [each["tx"] for each in orders] == [transactions[0], transactions[-1]]
    # What its type does not hold is refused, and is in `all`.
    assert [m.refused for m in taking.stored if m.refused] == ["n: it is no TINYINT"]


def check_gap(
    make: Callable[..., Taking], sql: Callable[[str], Any], forget: Callable[[], Any], why: str
) -> None:
    """Let the server forget changes that were not taken.

    Args:
        make: returns a receiver of options, and of the keyword `cursor`.
        sql: runs a statement.
        forget: lets the server forget its log so far.
        why: part of what is told.

    Raises:
        AssertionError: it is passed over in silence; or, where the tables may be read again, they are
            not, are not above what was before, or the gap is not told once.
    """
    sql("CREATE TABLE orders (id INT PRIMARY KEY, n INT)")
    sql("INSERT INTO orders VALUES (1, 10), (2, 20)")
    given = {"tables": {"orders": {"key": ["id"], "schema": "id INT, n INT"}}}
    with make(**given) as taking:
        taking.load()
        sql("UPDATE orders SET n = n + 1")
        taking.until(lambda: len(taking.stored) == 4)
    sql("UPDATE orders SET n = 30 WHERE id = 2")
    sql("DELETE FROM orders WHERE id = 1")
    forget()
    sql("INSERT INTO orders VALUES (3, 30)")
    cursor = taking.cursor
    try:
        with make(cursor=cursor, **given) as refused:
            refused.load()
    except PermanentError as error:
        told = str(error)
    else:
        told = "nothing"
    assert why in told, told
    assert "on_gap: snapshot" in told
    given["on_gap"] = "snapshot"  # type: ignore[assignment]
    with make(cursor=cursor, **given):  # killed before anything is stored
        pass
    with make(cursor=cursor, **given) as again:
        try:
            again.load()
        except TransientError:  # it is told while the log is read: the receiver connects again
            again.receiver.close()
            again.receiver.connect(cursor)
            again.load()
        sql("UPDATE orders SET n = 31 WHERE id = 3")
        again.until(lambda: len(again.stored) >= 4)
    lost, *rest = again.stored
    loss = loss_of(lost)
    assert loss is not None
    assert why in loss["reason"]
    assert changes(rest) == [("insert", 2, 30), ("insert", 3, 30), ("update_postimage", 3, 31)]
    told_now = versions([*taking.stored, *rest])
    assert told_now == sorted(told_now)
    assert versions(rest)[0] > versions(taking.stored)[-1]
    with make(cursor=again.cursor, **given) as later:
        sql("DELETE FROM orders WHERE id = 3")
        later.until(lambda: len(later.stored) >= 1)
    assert [change[0] for change in changes(later.stored)] == ["delete"]


def ask_for_tables(
    folder: Path, use: str, given: Mapping[str, Any], patterns: Sequence[str]
) -> tuple[Any, str]:
    """Write a database's tables into a document by `mainstem cdc tables`.

    Args:
        folder: for the document.
        use: the word of the source.
        given: its options.
        patterns: of the tables.

    Returns:
        the tables that the document has then, and what the command has printed before.

    Raises:
        AssertionError: the command fails; or the document has lost something, or gets a table twice.
    """
    from ruamel.yaml import YAML

    file = folder / "pipeline.yaml"
    options = "".join(f"      {name}: {value}  # of {name}\n" for name, value in given.items())
    file.write_text(
        f"# A pipeline.\npipeline: copy\ncheckpoint: {folder}/checkpoint\nsources:\n  shop:\n"
        f"    use: {use}\n    with:\n{options}sinks:\n  out: {{use: console, from: shop}}\n"
    )
    likes = [word for pattern in patterns for word in ("--like", pattern)]

    def ask(*words: str) -> tuple[str, str]:
        command = [sys.executable, "-m", "mainstem", "cdc", "tables", str(file), "shop"]
        made = subprocess.run(
            [*command, *likes, *words], capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr
        return made.stdout, made.stderr

    printed, _ = ask()
    ask("--write")
    text = file.read_text()
    assert "# A pipeline." in text
    assert all(f"# of {name}" in text for name in given)
    printed_now, told = ask()
    assert printed_now == ""
    assert told.endswith("No other table.\n"), told
    document = YAML(typ="safe").load(text)
    return document["sources"]["shop"]["with"]["tables"], printed
