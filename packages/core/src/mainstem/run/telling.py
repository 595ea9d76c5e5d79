"""Finds out which row a query failed for.

Spark tells the expression and the value, and not the row. So the batch that failed is run once more, with
the steps whose expressions may fail told to refuse such rows, and what they refuse fails the batch
again: by an error that names the row's place. Rows carry it from their source as a reserved column.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812

from mainstem.contracts.components import Operator
from mainstem.contracts.ddl import literal
from mainstem.contracts.shapes import ALONG, ASKED, MESSAGE_COLUMNS, PLACE, Shape
from mainstem.plan.model import Node
from mainstem.run.counting import OUTPUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Begins the message of an error that tells the row; the parts after it stand between unit separators:
#: node, reason, place, content.
FAILED = "mainstem-failed:"
_TOLD = re.compile(
    re.escape(FAILED) + r"([^\x1f]*)\x1f([^\x1f]*)\x1f([^\x1f]*)\x1f([^\n]*?)(?: SQLSTATE|\n|$)"
)
_REFUSED = "_rejected"
#: What the reasons of rows say for which an expression failed; an operator may refuse others too.
_FAILS = r" (fails: |raised )"


class Told(NamedTuple):
    """The row that an error tells of; its place and content may be empty."""

    node: str
    reason: str
    place: str
    content: str


def told(text: str) -> Told | None:
    """Return the row that an error tells of, or None."""
    found = _TOLD.search(text)
    return Told(*found.groups()) if found else None


def can_refuse(node: Node) -> bool:
    """Whether a node ends the run for a row for which an expression fails, and could refuse it."""
    return getattr(node.component.options, "on_error", None) == "fail"


def refusing(node: Node) -> Operator:
    """Return a node's operator, made anew to refuse rows for which an expression fails."""
    component = node.operator
    return type(component)(component.options.model_copy(update={"on_error": "reject"}))


def placed(frame: DataFrame, shape: Shape) -> DataFrame:
    """Add to the rows of a source where they come from, if they are messages."""
    names = [column.name for column in MESSAGE_COLUMNS]
    if not {*names} <= {*shape.names}:
        return frame
    place = ", ', ', ".join(f"'{name} ', {name}" for name in ("origin", "partition", "position"))
    return frame.withColumn(PLACE, F.expr(f"concat({place})"))


def headed(frame: DataFrame, headers: Collection[str]) -> DataFrame:
    """Add to the rows of a source the headers that observers ask for, as text, if they have any."""
    if not headers or ("headers", "map<string,binary>") not in frame.dtypes:
        return frame
    entries = ", ".join(
        f"{literal(name)}, try_validate_utf8(CAST(headers[{literal(name)}] AS STRING))"
        for name in sorted(headers)
    )
    return frame.withColumn(ASKED, F.expr(f"map({entries})"))


def alone(frame: DataFrame) -> DataFrame:
    """Return a frame without what goes along with its rows."""
    return frame.drop(*ALONG)


def failing(node: Node, frame: DataFrame, *, show_rows: bool) -> DataFrame:
    """Return an operator's rows, failing for the first one for which an expression failed."""
    if OUTPUT not in frame.columns:
        return frame
    place = PLACE if PLACE in frame.columns else "''"
    content = f"CAST({_REFUSED}.payload AS STRING)" if show_rows else "''"
    parts = ", ".join(
        [
            literal(FAILED + node.name),
            f"{_REFUSED}.reason",
            f"coalesce({place}, '')",
            f"coalesce({content}, '')",
        ]
    )
    error = F.raise_error(F.expr(f"concat_ws('\\u001f', {parts})")).cast("string")
    failed = F.expr(f"{OUTPUT} = 'rejected' AND {_REFUSED}.reason RLIKE {literal(_FAILS)}")
    frame = frame.withColumn(OUTPUT, F.when(failed, error).otherwise(F.col(OUTPUT)))
    if "rejected" in node.outputs:
        return frame
    return (
        frame.drop(_REFUSED)
        if node.outputs
        else frame.where(F.col(OUTPUT).isNull()).drop(OUTPUT, _REFUSED)
    )
