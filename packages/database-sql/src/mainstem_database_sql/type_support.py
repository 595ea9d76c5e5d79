"""What each product can hold of Spark's types: known without its library, for it is asked of a plan."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainstem import COMMIT_VERSION, Changelog, OptionError, Shape
from mainstem.columns import Column

DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
#: Types without a length that every product can hold.
PLAIN = {
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz"),
}


def check_readable(columns: Sequence[Column]) -> None:
    """Check that columns can be read from a table.

    Raises:
        OptionError: of `schema`; one can't.
    """
    for column in columns:
        kind = column.type or ""
        if kind not in PLAIN and not DECIMAL.fullmatch(kind):
            hint = "Read it as STRING." if not kind.startswith("interval") else ""
            message = f"column {column.name}: {kind} is not read from a table"
            raise OptionError(message, option="schema", hint=hint)


def refusal(columns: Sequence[Column], shape: Shape, product: str) -> str:
    """Return why a product can't hold some columns, each with the way out; empty if it can."""
    key = shape.key if isinstance(shape, Changelog) else ()
    found = []
    for column in columns:
        if column.type is None:  # only Spark can know it
            continue
        why = _unheld(column.type, product)
        if why:
            found.append(f"column {column.name}, of type {column.type} ({why})")
        elif column.name in key and column.type in ("float", "double"):
            found.append(f"column {column.name}, of type {column.type}, as a key")
        elif column.name == COMMIT_VERSION and product == "sqlite" and "decimal" in column.type:
            found.append(f"{column.type} as a sequence (it is kept as text: CAST(x AS BIGINT))")
    if not found:
        return ""
    return f"{product} can't hold " + ", nor ".join(found)


def _unheld(kind: str, product: str) -> str:
    """Return why no column of a product can hold a Spark type, with the way out; empty if one can."""
    if kind.startswith(("array<", "map<", "struct<", "variant")):
        return "make text of it: to_json(x)"
    if kind.startswith("interval") or kind == "void":
        return "make a number or text of it"
    found = DECIMAL.fullmatch(kind)
    if found and product == "mysql" and int(found[2]) > 30:
        return "MySQL has 30 digits after the point at most: CAST(x AS DECIMAL(38,30))"
    if found or kind in PLAIN or kind.startswith(("char(", "varchar(")):
        return ""
    return "its type is not known here"
