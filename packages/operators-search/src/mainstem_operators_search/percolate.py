"""Operator `percolate`: documents find the stored queries that they match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from mainstem import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    EVENTS,
    Accepts,
    Changelog,
    Inputs,
    LoadedFirst,
    OperatorCapabilities,
    OptionError,
    Options,
    Shape,
    StateFacts,
    option,
)
from mainstem.columns import Column, find_column, quoted
from mainstem_keyed_state import KeyedOperator, lacking

from mainstem_operators_search.query import searchable

if TYPE_CHECKING:
    import polars as pl
    from mainstem import OperatorContext
    from mainstem_keyed_state import Logic
    from mainstem_keyed_state.frames import Port
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

QUERIES = "queries"
#: Into how many keys documents are dealt, so that all cores have some.
_PARTS = 4096


class PercolateOptions(Options):
    """Options of `percolate`."""

    query: str = option(
        "query", min_length=1, description="The column of the port `queries` with a query's text."
    )
    language: Literal["words", "sql"] = option(
        "words",
        description="How queries are written: `words`, as one searches texts; `sql`, as predicates of "
        "SQL, which compare columns with constants.",
    )
    fields: list[str] = option(
        list,
        description="The text columns of documents that are searched where a query names none; when left "
        "out, all of them.",
        example=["title", "body"],
    )
    matches: str = option(
        "matches",
        min_length=1,
        description="The name of the column with the keys of the queries that a document matches.",
    )


class Percolate(KeyedOperator, LoadedFirst):
    """Adds to each document the keys of the queries that it matches, as they are in its batch.

    Queries come and go as rows of a table, and are kept; documents are not. A query that can't be read
    goes to `rejected`.
    """

    options: PercolateOptions
    ports = {"input": EVENTS, QUERIES: Accepts((Changelog,))}
    #: Which queries a document meets depends on when they have come.
    capabilities = OperatorCapabilities(batch_invariant=False, passes_ids=True)

    def loaded_first(self) -> frozenset[str]:
        """Return the port whose rows are there before the first document is looked at."""
        return frozenset({QUERIES})

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given, name = inputs["input"], self.options.matches
        key, _ = self._key(inputs), self._dealt(given)
        find_column(inputs[QUERIES].columns, self.options.query, "query")
        if given.column(name) is not None:
            raise OptionError(f"the name {name!r} is taken", option="matches")
        kind = None if key.type is None else f"array<{key.type}>"
        return given.with_columns([*given.columns, Column(name, kind)])

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        return {QUERIES: lacking([self._key(inputs).name, COMMIT_VERSION])}

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        asked = ", ".join(quoted(name) for name in self._dealt(inputs["input"]))
        return {"input": [f"pmod(xxhash64({asked}), {_PARTS})"]}

    def _dealt(self, given: Shape) -> list[str]:
        """Return the columns by which documents are dealt out."""
        found = self.fields(given) or sorted(self._types(given))
        if not found:
            raise OptionError("documents have no column that can be asked for", option="language")
        return found

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        key = self._key(inputs)
        asked = [f"{name} {kind}" for name, kind in sorted(self._types(inputs["input"]).items())]
        written = {} if self.options.language == "words" else {"language": [self.options.language]}
        return StateFacts(
            1,
            keyed=True,
            # Queries that were read must be readable: a column may come, and none may go.
            shaped_by={"queries": [key.ddl], "columns": asked, **written},
            gains=frozenset({"columns"}),
            grows="queries are kept, of those that are gone the key.",
        )

    def fields(self, given: Shape) -> list[str]:
        """Return the columns that are searched where a query names none."""
        if self.options.language == "sql":
            if self.options.fields:
                raise OptionError("predicates name their columns", option="fields")
            return []
        if not self.options.fields:
            found = [column.name for column in given.columns if column.type == "string"]
            if not found:
                raise OptionError("documents have no text column", option="fields")
            return found
        columns = [find_column(given.columns, name, "fields") for name in self.options.fields]
        for column in columns:
            if column.type is None:
                hint = "Give it one with `select`: CAST(... AS STRING)."
                raise OptionError(f"{column.name} has no known type", option="fields", hint=hint)
            if column.type != "string":
                kind = column.type.upper()
                raise OptionError(f"{column.name} is {kind}, and no text", option="fields")
        return [column.name for column in columns]

    def ports_of(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Mapping[str, Port]:
        from mainstem_keyed_state.changes import DELETED, SEQUENCE
        from mainstem_keyed_state.frames import Port

        from mainstem_operators_search.percolate_logic import TEXT

        shapes = ctx.shapes
        key = quoted(self._key(shapes).name)
        text = quoted(find_column(shapes[QUERIES].columns, self.options.query, "query").name)
        changes = (
            inputs[QUERIES]
            .where(f"{CHANGE_TYPE} <> 'update_preimage'")
            .selectExpr(
                key,
                f"CAST({text} AS STRING) AS {TEXT}",
                COMMIT_VERSION,
                f"{COMMIT_VERSION} AS {SEQUENCE}",
                f"{CHANGE_TYPE} = 'delete' AS {DELETED}",
            )
        )
        return {
            "input": Port(inputs["input"], self.keys(shapes)["input"]),
            QUERIES: Port(changes, [key]),
        }

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_search.percolate_logic import PercolateLogic

        given = inputs["input"]
        return PercolateLogic(
            rows["input"],
            rows[QUERIES],
            key=self._key(inputs).name,
            types=self._types(given),
            fields=self.fields(given),
            matches=self.options.matches,
            language=self.options.language,
        )

    def types(
        self, rows: Mapping[str, DataFrame], inputs: Inputs[Shape]
    ) -> Mapping[str, Mapping[str, str | DataType]]:
        key = self._key(inputs)
        return {"": {self.options.matches: f"ARRAY<{key.type}>"}} if key.type else {}

    def _types(self, given: Shape) -> dict[str, str]:
        """Return the columns that can be asked for, and their types."""
        return {c.name: c.type for c in given.columns if c.type and searchable(c.type)}

    def _key(self, inputs: Inputs[Shape]) -> Column:
        """Return the column that tells a query from others."""
        queries = inputs[QUERIES]
        assert isinstance(queries, Changelog)  # noqa: S101
        if len(queries.key) != 1:
            raise OptionError(f"queries have one key column, not {', '.join(queries.key)}")
        if queries.sequence is None:
            raise OptionError(
                "the changes of the queries have no sequence: they come batch by batch",
                hint="Read them from a table or a topic with a sequence of its own.",
            )
        return replace(find_column(queries.columns, queries.key[0], QUERIES), nullable=False)
