"""What is known of a bucket's pages: the one more entry of its state, as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

#: A due time that never comes.
NEVER = (1 << 63) - 1


@dataclass(frozen=True)
class Layout:
    """How the bytes of an entry are to be read: `schema` is Arrow's, of `table` in `version`."""

    version: int
    table: str
    schema: pa.Schema

    def as_json(self) -> list[Any]:
        return [self.version, self.table, base64.b64encode(self.schema.serialize()).decode()]

    @staticmethod
    def of_json(found: Sequence[Any]) -> Layout:
        version, table, schema = found
        return Layout(version, table, pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema))))


@dataclass
class Stored:
    """What is known of a page's rows of one table: their number, bytes and earliest due time."""

    rows: int
    size: int
    due: int = NEVER


@dataclass
class Page:
    """A page: rows whose hashes are `low` or above and below the next page's `low`."""

    number: int
    low: int
    tables: dict[str, Stored] = field(default_factory=dict)

    @property
    def due(self) -> int:
        """When the earliest row is due, in microseconds."""
        return min((stored.due for stored in self.tables.values()), default=NEVER)

    @property
    def size(self) -> int:
        """The bytes of all tables."""
        return sum(stored.size for stored in self.tables.values())


@dataclass
class Waiting:
    """An entry of a table whose rows wait apart from their keys: see `Queue`.

    Attributes:
        due: when the earliest of its rows is due, in microseconds.
        start, width: the stretch of time that its rows are of.
    """

    number: int
    rows: int
    size: int
    due: int
    start: int
    width: int


@dataclass
class Directory:
    """The pages of a bucket, by their lowest hash, and what else is known of it.

    Attributes:
        queues: the entries of each table whose rows wait apart from their keys.
        timer: when the bucket is to be woken, in milliseconds of the watermark; None for never.
        shared: the entry of each table that all keys share, by its number, and how many rows it has.
    """

    pages: list[Page] = field(default_factory=lambda: [Page(0, 0)])
    layouts: list[Layout] = field(default_factory=list)
    next: int = 1
    timer: int | None = None
    queues: dict[str, list[Waiting]] = field(default_factory=dict)
    shared: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def due(self) -> int:
        """When the earliest row is due, in microseconds."""
        waiting = (each.due for queue in self.queues.values() for each in queue)
        return min((*(page.due for page in self.pages), *waiting))

    @property
    def empty(self) -> bool:
        """Whether there is nothing to be kept."""
        full = any(page.tables for page in self.pages) or any(self.queues.values())
        return not full and not self.shared and self.timer is None

    def to_bytes(self) -> bytes:
        pages = [
            [page.number, page.low, {t: [s.rows, s.size, s.due] for t, s in page.tables.items()}]
            for page in self.pages
        ]
        layouts = [layout.as_json() for layout in self.layouts]
        queues = {
            table: [list(vars(w).values()) for w in q] for table, q in self.queues.items() if q
        }
        whole = [pages, layouts, self.next, self.timer, queues, self.shared]
        return json.dumps(whole, separators=(",", ":")).encode()

    @staticmethod
    def of_bytes(found: bytes) -> Directory:
        pages, layouts, following, timer, *rest = json.loads(found)
        queues, shared = [*rest, {}, {}][:2]  # none, of before there were any
        return Directory(
            [
                Page(number, low, {name: Stored(*stored) for name, stored in tables.items()})
                for number, low, tables in pages
            ],
            [Layout.of_json(layout) for layout in layouts],
            following,
            timer,
            {table: [Waiting(*each) for each in queue] for table, queue in queues.items()},
            {table: (number, rows) for table, (number, rows) in shared.items()},
        )
