"""Operator `outbox`: rows that an application wrote beside its changes become messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    REJECTED,
    Branching,
    Changelog,
    Events,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    option,
)
from mainstem.attempts import refusal, row_as_json
from mainstem.columns import Column, find_column, literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_CHANGES = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "headers": "map<string,binary>",
    "timestamp": "timestamp",
    "origin": "string",
    "id": "string",
}


class OutboxOptions(Options):
    """Options of `outbox`. The usual columns are those of Debezium's event router."""

    id: str = option(
        "id", description="The column with the message's id; it becomes the header `id`."
    )
    route: str = option(
        "aggregatetype", description="The column that says where the message goes: its `origin`."
    )
    prefix: str = option(
        "outbox.event.",
        description="What is put before that: `orders` goes to `outbox.event.orders`.",
    )
    key: str | None = option(
        "aggregateid",
        description="The column with the message's key; null for messages without one.",
    )
    payload: str = option(
        "payload", description="The column with the message's value: text or bytes."
    )
    timestamp: str | None = option(
        None,
        description="The column with the message's time; when left out, the commit's of a change.",
    )
    headers: dict[str, str] = option(
        {"type": "type"},
        description="Headers: columns by name; null leaves one out.",
    )


class Outbox(Operator, Branching):
    """Turns the rows of an outbox table into messages.

    Of a changelog it takes the inserts; deletes are left out, for rows may be deleted at any time. A row
    that was changed, or lacks its id or its route, is refused. Of events it takes each.
    """

    options: OutboxOptions
    capabilities = OperatorCapabilities(row_wise=True, keeps_names=False)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given, options = inputs.only.columns, self.options
        named = {"id": options.id, "route": options.route, "payload": options.payload}
        for name, optional in (("key", options.key), ("timestamp", options.timestamp)):
            named |= {name: optional} if optional is not None else {}
        for name, column in named.items():
            find_column(given, column, name)
        for column in options.headers.values():
            find_column(given, column, "headers")
        kind = find_column(given, options.payload, "payload").type
        if kind not in (None, "string", "binary"):
            raise OptionError(f"a payload is text or bytes, and not {kind}", option="payload")
        return Events([Column(name, kind) for name, kind in _COLUMNS.items()])

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED}

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        options, frame, shape = self.options, inputs.only, ctx.shapes.only
        changes = isinstance(shape, Changelog)
        names = [c.name for c in shape.columns]
        columns = {name.lower(): quoted(name) for name in names}

        def column(name: str) -> str:
            return columns[name.lower()]

        key = "NULL" if options.key is None else f"CAST({column(options.key)} AS STRING)"
        own = "NULL" if options.timestamp is None else column(options.timestamp)
        at = COMMIT_TIMESTAMP if changes and options.timestamp is None else own
        headers = {"id": options.id, **options.headers}
        entries = ", ".join(
            f"struct({literal(name)} AS key, encode(CAST({column(c)} AS STRING), 'UTF-8') AS value)"
            for name, c in headers.items()
        )
        made = {
            "key": f"encode({key}, 'UTF-8')",
            "value": f"CAST({column(options.payload)} AS BINARY)",
            "headers": f"map_from_entries(filter(array({entries}), e -> e.value IS NOT NULL))",
            "timestamp": f"CAST({at} AS TIMESTAMP)",
            "origin": f"concat({literal(options.prefix)}, CAST({column(options.route)} AS STRING))",
            "id": f"CAST({column(options.id)} AS STRING)",
        }
        if changes:
            frame = frame.where(f"{CHANGE_TYPE} NOT IN ('delete', 'update_preimage')")
        changed = f"{CHANGE_TYPE} <> 'insert'" if changes else "false"
        why = (
            f"CASE WHEN {changed} THEN 'a row of an outbox was changed' "
            f"WHEN {column(options.id)} IS NULL THEN {literal(f'{options.id} is null')} "
            f"WHEN {column(options.route)} IS NULL THEN {literal(f'{options.route} is null')} END"
        )
        kept = [n for n in frame.columns if n.startswith("_") and n not in _OF_CHANGES]
        return frame.selectExpr("*", f"{why} AS __reason").selectExpr(
            *(f"{sql} AS {name}" for name, sql in made.items()),
            *kept,
            *refusal("__reason", row_as_json(names)),
        )
