"""Rows of tables as columns: what a log has of them is what it has of a message for each."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from mainstem import Changelog, Events
from mainstem.columns import read_columns
from mainstem_ingress import (
    Columns,
    IngressOptions,
    Message,
    Rows,
    Values,
    columns_of,
    no_row,
    row_of,
    struct_type,
)
from mainstem_ingress.log import Log
from mainstem_ingress.loop import refuse_large
from mainstem_ingress.messages import joined
from mainstem_ingress.segments import fields_of, file_of, open_segment
from mainstem_ingress.tables import tables_ddl
from mainstem_ingress.writer import Store

TABLES = {
    "orders": Events("id BIGINT, total DECIMAL(10, 2)", identity=["id"]),
    "people": Changelog("name STRING, tags ARRAY<STRING>", key=["name"], sequence_type="string"),
}
EXTRA = fields_of([(c.name, c.type or "") for c in read_columns(tables_ddl(TABLES))])
TOTALS = [Decimal("1.50"), None, Decimal("-2.25")]


def orders(*numbers: int, token: Any = None) -> Columns:
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "total": pa.array([TOTALS[n % 3] for n in numbers], pa.decimal128(10, 2)),
    }
    rows = columns_of(struct_type("orders", TABLES["orders"]), columns)
    return Columns("orders", rows, [10**15 + n for n in numbers], "public.orders", token)


def people(*names: str) -> Columns:
    columns = {
        "name": pa.array(names),
        "_change_type": pa.array(["insert"] * len(names)),
        "_commit_version": pa.array([f"{at:04}" for at in range(len(names))]),
    }
    rows = columns_of(struct_type("people", TABLES["people"]), columns)
    return Columns("people", rows, [10**15] * len(names), "public.people")


def as_messages(rows: Rows) -> list[Message]:
    found: list[Message] = []
    for part in rows.parts:
        if isinstance(part, Columns):
            for at, row in zip(part.timestamps, part.rows.to_pylist(), strict=True):
                extra = row_of(TABLES, part.table, row)
                found.append(Message(None, timestamp=at, origin=part.origin, extra=extra))
        else:
            found += part
    return found


def stored(folder: Path, *groups: Any) -> list[dict[str, Any]]:
    log = Log(folder)
    log.receiver(0).mkdir(parents=True)
    store = Store(log, 0, IngressOptions(), EXTRA)
    for group in groups:
        store.store(group, "cursor")
    found: list[dict[str, Any]] = []
    for number in range(len(groups)):
        header, batch = open_segment(file_of(store.folder, number))
        assert header.cursor == "cursor"
        found += batch.to_pylist()
    assert store.counts.stored + store.counts.refused == len(found)
    return found


def test_columns_are_stored_as_messages_are(tmp_path: Path) -> None:
    """Pass: tables of several types, nulls, messages and refused ones between them: the same rows in the same order, in one
    segment, with the cursor; what is refused is counted so."""
    said = Message(b"said", timestamp=10**15, origin="prefix", extra=no_row(TABLES))
    refused = said._replace(value=b"x", refused="no number")
    rows = Rows([orders(1, 2), [said, refused], people("a", "b"), orders(3)])
    assert len(rows) == 7
    assert stored(tmp_path / "columns", rows) == stored(tmp_path / "messages", as_messages(rows))


def test_a_large_message_is_refused_beside_columns_too() -> None:
    """Pass: its beginning and the reason are left; the columns, and what is small, stay as they are."""
    columns, small = orders(1, 2), Message(b"1234", token=1)
    rows, size = refuse_large(Rows([columns, [small, Message(b"12345", token=2)]]), 4)
    assert isinstance(rows, Rows)
    first, (left, large) = rows.parts
    assert first is columns
    assert left is small
    assert (large.value, large.token) == (b"12345", 2)
    assert large.refused is not None
    assert "max_message is 4" in large.refused
    assert size == rows.nbytes


def test_groups_are_joined_in_order() -> None:
    """Pass: columns, lists and columns of values make one group; its messages have the tokens of their parts, the last one
    that of the last."""
    plain = Message(b"m", token=7)
    group = joined([plain], Rows([orders(1, 2, token=8)]))
    group = joined(group, Values([b"v"], "origin"))
    group = joined(group, Rows([orders(3, token=9)]))
    assert isinstance(group, Rows)
    assert [m.value for m in group] == [b"m", None, None, b"v", None]
    assert [m.token for m in group] == [7, 8, 8, None, 9]
    assert group[-1].token == 9
    assert [m.token for m in group[:2]] == [7, 8]
    assert group.nbytes > 0
    assert joined([], group) is group
