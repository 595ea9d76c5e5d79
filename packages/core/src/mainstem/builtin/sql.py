"""Operator `sql`: a query of the user's own over the streams as tables."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mainstem import Inputs, OptionError, option
from mainstem.builtin.declared import Declared, DeclaredOptions
from mainstem.columns import quoted
from mainstem.contracts.abilities import Checked, Expressions, Statement
from mainstem.contracts.shapes import Shape
from mainstem.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame


_PREFIX = "mainstem_table_"


class SqlOptions(DeclaredOptions):
    """Options of `sql`."""

    query: str = option(
        min_length=1,
        description="A SELECT over the tables. It keeps no state: no aggregate, DISTINCT, window "
        "function, ORDER BY, LIMIT or join of two streams. Other tables are those of Spark's "
        "catalog.",
        example="SELECT upper(city) AS city, cents FROM input WHERE cents > 0",
    )


class Sql(Declared, Expressions, Checked):
    """Runs an SQL query over its inputs as tables; for steps from rows to rows, without state."""

    options: SqlOptions
    at = "query"

    def expressions(self) -> Mapping[str, str]:
        return {"query": self.options.query}

    def statements(self, inputs: Inputs[Shape]) -> list[Statement]:
        query = self.options.query.strip().removesuffix(";")
        columns = self.options.table_schema
        return [Statement("query", query, "query", before="", after="", columns=columns)]

    def compute(self, tables: Inputs[DataFrame]) -> DataFrame:
        from pyspark.errors import AnalysisException

        spark = next(iter(tables.values())).sparkSession
        java: Any = spark._jsparkSession
        query = self.options.query.strip().removesuffix(";")
        java.sessionState().sqlParser().parseQuery(query)  # a command would run at once
        with _views(tables) as views:
            # The names hold within this query alone, so they clash with nothing in the session.
            named = ", ".join(f"{quoted(t)} AS (TABLE {v})" for t, v in views.items())
            try:
                return spark.sql(f"WITH {named} (\n{query}\n)")
            except AnalysisException as error:
                if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
                    raise
                raise _no_table(error, list(tables)) from error

    def check(self, trial: DataFrame) -> None:
        """Refuse a query that leaves a table unread: its rows would be gone without a word."""
        java: Any = trial._jdf
        plan = java.queryExecution().analyzed()
        if plan.getClass().getSimpleName() != "WithCTE":
            return
        definitions, text = plan.cteDefs(), plan.toString()
        for body in (definitions.apply(index) for index in range(definitions.size())):
            ours = f"View (`{_PREFIX}" in body.toString()
            if ours and f"CTERelationRef {body.id()}," not in text:
                message = f"does not read the table {body.child().alias()!r}"
                raise OptionError(message, option="query")


@contextmanager
def _views(tables: Inputs[DataFrame]) -> Iterator[dict[str, str]]:
    """Give each table a view under a name that nobody else has, for as long as it is looked up."""
    views = {name: f"{_PREFIX}{uuid.uuid4().hex}" for name in tables}
    for name, frame in tables.items():
        frame.createTempView(views[name])
    try:
        yield views
    finally:
        for name, frame in tables.items():
            frame.sparkSession.catalog.dropTempView(views[name])


def _no_table(error: Any, tables: list[str]) -> OptionError:
    name = str((error.getMessageParameters() or {}).get("relationName", "")).replace("`", "")
    hint = nearest(name, tables) or f"Tables: {', '.join(tables)}."
    return OptionError(f"there is no table {name!r}", option="query", hint=hint)
