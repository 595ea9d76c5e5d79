"""What happens to events between source and sink, and what must come of it, computed in plain Python."""

from __future__ import annotations

import random
import uuid
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from campaign.events import KEYS, START, Event, iso
from campaign.places import Places
from campaign.sources import postgres

Row = tuple[Any, ...]
Rows = Sequence[Mapping[str, Any]]

WINDOW = 600


class Chain(ABC):
    """Steps from events to a result.

    Attributes:
        columns: the columns that are compared.
        keyed: whether a step keeps state by key.
        row_by_row: whether each row comes of the event that it names, whatever else was lost.
        loads: whether a table is loaded before events are joined.
        table: whether the result is a changelog, of which the last table is compared; keyed by `k`.
        changes: whether it takes the changes of a table, and no events.
        needs: the server that its steps speak to; never killed, as some forget what they have.
    """

    name: ClassVar[str]
    columns: ClassVar[Sequence[str]]
    keyed: ClassVar[bool] = False
    loads: ClassVar[bool] = False
    row_by_row: ClassVar[bool] = True
    table: ClassVar[bool] = False
    changes: ClassVar[bool] = False
    needs: ClassVar[str | None] = None
    #: The columns and watermark of the second side, read from files; none if there is none.
    side: ClassVar[tuple[str, Mapping[str, Any] | None] | None] = None

    @abstractmethod
    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        """Return the operators; the one called `name` is the last.

        Args:
            places: the servers, of which they speak to `needs`.
        """

    def second(self, events: Sequence[Event], chance: random.Random) -> Rows:
        """Return the rows of the second side."""
        return []

    @abstractmethod
    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        """Return what must come out."""


class Stateless(Chain):
    name = "stateless"
    columns = ("n", "k", "w")

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        columns = {"n": "n", "k": "k", "w": "v * 2"}
        return {
            name: {"use": "select", "from": event, "with": {"columns": columns, "where": "v >= 10"}}
        }

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        return Counter((e.n, e.k, e.v * 2) for e in events if e.v >= 10)


def totals() -> dict[str, Any]:
    """Return the options of an aggregate of each key by window."""
    return {
        "by": ["k"],
        "window": {"on": "at", "tumbling": f"{WINDOW} seconds"},
        "columns": {"n": "count(*)", "total": "sum(v)"},
    }


class Aggregate(Chain):
    name = "aggregate"
    columns = ("k", "since", "n", "total")
    row_by_row = False

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        columns = {"k": "k", "since": "unix_seconds(window_start)", "n": "n", "total": "total"}
        return {
            f"{name}_totals": {"use": "aggregate", "from": event, "with": totals()},
            name: {"use": "select", "from": f"{name}_totals", "with": {"columns": columns}},
        }

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for e in events:
            found[e.k, e.at - e.at % WINDOW].append(e.v)
        return Counter((k, since, len(vs), sum(vs)) for (k, since), vs in found.items())


class Relayed(Chain):
    """A window over what a window gives, so two queries, and a relay between them."""

    name = "relay"
    columns = ("k", "since", "most", "total")
    row_by_row = False

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        longer = {
            "by": ["k"],
            "window": {
                "on": "window_end", "tumbling": f"{6 * WINDOW} seconds", "start": "began", "end": "ended",
            },
            "columns": {"most": "max(n)", "total": "sum(total)"},
        }  # fmt: skip
        columns = {"k": "k", "since": "unix_seconds(began)", "most": "most", "total": "total"}
        return {
            f"{name}_totals": {"use": "aggregate", "from": event, "with": totals()},
            f"{name}_longer": {"use": "aggregate", "from": f"{name}_totals", "with": longer},
            name: {"use": "select", "from": f"{name}_longer", "with": {"columns": columns}},
        }

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        found: dict[tuple[str, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for e in events:
            found[e.k, e.at - e.at % (6 * WINDOW)][e.at // WINDOW].append(e.v)
        return Counter(
            (k, since, max(map(len, vs.values())), sum(map(sum, vs.values())))
            for (k, since), vs in found.items()
        )


class Enrich(Chain):
    """Each event with the version of its key's row that held at its time."""

    name = "stream_table"
    columns = ("n", "k", "level")
    keyed = loads = True
    side = (
        "k STRING, since TIMESTAMP, level INT",
        {"column": "since", "delay": "1 second", "idle_after": "1 second"},
    )

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        table = {"key": ["k"], "sequence": "since"}
        join = {"on": ["k"], "join": "left", "take": ["level"]}
        ports = {"stream": event, "table": f"{name}_table"}
        columns = {"n": "n", "k": "k", "level": "level"}
        return {
            f"{name}_table": {
                "use": "changelog",
                "from": side,
                "with": table,
                "on_rejected": "fail",
            },
            f"{name}_joined": {
                "use": "stream_table_join",
                "from": ports,
                "with": join,
                "on_rejected": "fail",
            },
            name: {"use": "select", "from": f"{name}_joined", "with": {"columns": columns}},
        }

    def second(self, events: Sequence[Event], chance: random.Random) -> Rows:
        last = max(e.at for e in events)
        rows = [
            {"k": f"k{chance.randrange(KEYS)}", "since": at, "level": number}
            for number, at in enumerate(range(START - 3600, last, 300))
        ]
        return [{**row, "since": iso(row["since"])} for row in rows]

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        held: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for row in second:  # in the order of their times
            held[row["k"]].append((row["since"], row["level"]))

        def level(e: Event) -> int | None:
            at = bisect_right(held[e.k], iso(e.at), key=lambda version: version[0])
            return held[e.k][at - 1][1] if at else None

        return Counter((e.n, e.k, level(e)) for e in events)


class Match(Chain):
    """Each event with the hits on it within ten minutes."""

    name = "stream_stream"
    columns = ("n", "k", "late_by")
    side = ("ref BIGINT, hit TIMESTAMP", {"column": "hit", "delay": "1 hour"})

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        join = {
            "on": {"n": "ref"},
            "within": {"before": "0 seconds", "after": f"{WINDOW} seconds"},
            "take": ["hit"],
        }
        columns = {"n": "n", "k": "k", "late_by": "unix_seconds(hit) - unix_seconds(at)"}
        return {
            f"{name}_joined": {
                "use": "stream_stream_join",
                "from": {"left": event, "right": side},
                "with": join,
            },
            name: {"use": "select", "from": f"{name}_joined", "with": {"columns": columns}},
        }

    def second(self, events: Sequence[Event], chance: random.Random) -> Rows:
        hits = [(e.n, e.at + chance.randrange(2 * WINDOW)) for e in events if chance.random() < 0.5]
        return [{"ref": n, "hit": iso(at)} for n, at in sorted(hits, key=lambda hit: hit[1])]

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        hits = {row["ref"]: datetime.fromisoformat(row["hit"]).timestamp() for row in second}
        late = ((e, int(hits[e.n]) - e.at) for e in events if e.n in hits)
        return Counter((e.n, e.k, by) for e, by in late if by <= WINDOW)


class Newest(Chain):
    """The newest event of each key, as a table."""

    name = "table"
    columns = ("k", "n", "v")
    keyed, row_by_row, table = True, False, True

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        made = {"key": ["k"], "sequence": "n"}
        return {
            f"{name}_rows": {
                "use": "select",
                "from": event,
                "with": {"columns": {"k": "k", "n": "n", "v": "v"}},
            },
            name: {
                "use": "table",
                "from": f"{name}_rows",
                "with": made,
                "on_rejected": "fail",
            },
        }

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        return Counter({e.k: (e.k, e.n, e.v) for e in events}.values())


class Copied(Chain):
    """A database's table, kept in step."""

    name = "copy"
    columns = ("k", "n", "v")
    row_by_row, table, changes = False, True, True

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        columns = {"k": "k", "n": "n", "v": "v"}
        return {name: {"use": "select", "from": event, "with": {"columns": columns}}}

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        return Counter({e.k: (e.k, e.n, e.v) for e in events}.values())


class View(Chain):
    """The newest event of each key beside the newest row of a second table."""

    name = "table_table"
    columns = ("k", "n", "v", "level")
    keyed, row_by_row, table = True, False, True
    side = ("k STRING, m BIGINT, level INT", None)

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        def changelog(of: str, sequence: str) -> dict[str, Any]:
            told = {"key": ["k"], "sequence": sequence}
            return {"use": "changelog", "from": of, "with": told, "on_rejected": "fail"}

        join = {"on": ["k"], "join": "left", "take": ["level"]}
        ports = {"left": f"{name}_left", "right": f"{name}_right"}
        columns = {"columns": {"k": "k", "n": "n", "v": "v"}}
        return {
            f"{name}_rows": {"use": "select", "from": event, "with": columns},
            f"{name}_left": changelog(f"{name}_rows", "n"),
            f"{name}_right": changelog(side, "m"),
            name: {
                "use": "table_table_join",
                "from": ports,
                "with": join,
                "on_rejected": "fail",
            },
        }

    def second(self, events: Sequence[Event], chance: random.Random) -> Rows:
        return [
            {"k": f"k{chance.randrange(KEYS // 2)}", "m": m, "level": chance.randrange(100)}
            for m in range(200)
        ]

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        level = {row["k"]: row["level"] for row in second}
        newest = {e.k: e for e in events}
        return Counter((k, e.n, e.v, level.get(k)) for k, e in newest.items())


class Pattern(Chain):
    """A low value and, within an hour, a high one of the same key, with others between."""

    name = "match"
    columns = ("k", "first", "last")
    keyed, row_by_row = True, False

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        match = {
            "by": ["k"],
            "order": ["n"],
            "define": {"low": "v < 20", "high": "v >= 80"},
            "pattern": "low ... high",
            "within": "1 hour",
            "measures": {"first": "low.n", "last": "high.n"},
        }
        columns = {"k": "k", "first": "first", "last": "last"}
        return {
            f"{name}_found": {"use": "match", "from": event, "with": match},
            name: {"use": "select", "from": f"{name}_found", "with": {"columns": columns}},
        }

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        found: Counter[Row] = Counter()
        mine: dict[str, list[Event]] = defaultdict(list)
        for e in sorted(events, key=lambda e: (e.at, e.n)):
            mine[e.k].append(e)
        for k, rows in mine.items():
            at = 0
            while at < len(rows):
                low = rows[at]
                ends = (
                    n
                    for n in range(at + 1, len(rows))
                    if rows[n].v >= 80 and rows[n].at - low.at < 3600
                )
                end = next(ends, None) if low.v < 20 else None
                if end is not None:
                    found[k, low.n, rows[end].n] += 1
                at = at + 1 if end is None else end + 1
        return found


class Copies(Chain):
    """Each event twice, of which the second is dropped."""

    name = "deduplicate"
    columns = ("n", "k", "v")
    keyed = True

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        columns = {"n": "n", "k": "k", "v": "v", "at": "at"}
        once = {"use": "select", "from": event, "with": {"columns": columns}}
        return {
            f"{name}_one": once,
            f"{name}_other": once,
            f"{name}_both": {"use": "union", "from": [f"{name}_one", f"{name}_other"]},
            name: {
                "use": "deduplicate",
                "from": f"{name}_both",
                "with": {"by": ["n"], "within": "1 hour"},
            },
        }

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        return Counter((e.n, e.k, e.v) for e in events)


class Asked(Chain):
    """Each event with what a database's table has for its key."""

    name = "lookup"
    columns = ("n", "k", "level")
    needs = "postgres"

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        table = f"of_{uuid.uuid4().hex[:12]}"
        rows = ", ".join(f"('k{n}', {n * 7})" for n in range(KEYS // 2))
        postgres(places.postgres, f"CREATE TABLE {table} (k TEXT PRIMARY KEY, level INT)")
        postgres(places.postgres, f"INSERT INTO {table} VALUES {rows}")
        asked = {
            "url": places.postgres.url,
            "table": table,
            "schema": "level INT",
            "key": {"k": "k"},
        }
        columns = {"n": "n", "k": "k", "level": "level"}
        return {
            f"{name}_asked": {
                "use": "sql_lookup",
                "from": event,
                "with": {**asked, "cache_for": "1 second", "give_up": "20 s"},
                "on_rejected": "fail",
            },
            name: {"use": "select", "from": f"{name}_asked", "with": {"columns": columns}},
        }

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        levels = {f"k{n}": n * 7 for n in range(KEYS // 2)}
        return Counter((e.n, e.k, levels.get(e.k)) for e in events)


class Registered(Chain):
    """Events in Avro, behind the numbers that a registry gives their schema, written and read."""

    name = "registry"
    columns = ("n", "k", "v")
    needs = "apicurio"

    def steps(self, event: str, side: str, name: str, places: Places) -> dict[str, Any]:
        avro = {
            "format": "avro",
            "schema_file": str(Path(__file__).parent / "event.avsc"),
            "framing": "confluent",
            "registry": {"url": places.apicurio.url},
        }
        columns = ["n", "k", "v"]
        return {
            f"{name}_written": {
                "use": "encode",
                "from": event,
                "with": {**avro, "columns": columns, "subject": f"{name}-value"},
            },
            name: {
                "use": "decode",
                "from": f"{name}_written",
                "with": avro,
                "on_rejected": "fail",
            },
        }

    def expected(self, events: Sequence[Event], second: Rows) -> Counter[Row]:
        return Counter((e.n, e.k, e.v) for e in events)


_ALL = (
    Stateless(), Aggregate(), Enrich(), Match(), Newest(), View(), Relayed(), Copied(), Registered(),
    Pattern(), Copies(), Asked(),
)  # fmt: skip
CHAINS = {each.name: each for each in _ALL}
