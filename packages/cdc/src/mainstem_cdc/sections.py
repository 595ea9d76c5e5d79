"""The tables of a document's source, made of what the database has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from io import StringIO
from pathlib import Path
from typing import Any

from mainstem import PipelineError
from mainstem.columns import Column, quoted, read_columns
from mainstem.durable import write_whole
from ruamel.yaml import YAML

from mainstem_cdc.options import CaptureOptions
from mainstem_cdc.source import FoundTable

_WHOLE = ("tinyint", "smallint", "int", "bigint")
#: How many digits they have at most, and how many they can have whatever those are.
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_ANY_DIGITS = {kind: digits - 1 for kind, digits in _DIGITS.items()}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WIDTH = 100


def section(
    options: CaptureOptions, found: Sequence[FoundTable], patterns: Sequence[str]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return tables as a document has them.

    Args:
        patterns: of their names.

    Returns:
        those that the document does not name, by the names of their outputs; and why others are left out.
    """
    there = {options.placed(name, each) for name, each in options.tables.items()}
    made: dict[str, dict[str, Any]] = {}
    left = []
    for table in found:
        place = f"{table.namespace}.{table.name}"
        own = table.namespace == options.namespace
        names = (place, table.name) if own else (place,)
        wanted = any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
        if not wanted or (table.namespace, table.name) in there:
            continue
        if not table.key:
            left.append(f"{place}: left out, as it has no primary key")
            continue
        name = _output(table.name, {*options.tables, *made})
        given = table.name if own else place
        schema = ", ".join(f"{_column(c.name)} {c.type}" for c in table.columns)
        made[name] = {
            **({} if given == name else {"table": given}),
            "key": list(table.key),
            "schema": schema,
        }
    return made, left


def _output(table: str, taken: set[str]) -> str:
    """Return a name of an output that is not taken."""
    name = re.sub(r"[^a-z0-9]+", "_", table.lower()).strip("_") or "table"
    name = name if name[0].isalpha() else f"t_{name}"
    name = name if name not in ("rejected", "lost", "late", "early", "all") else f"{name}_table"
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def _column(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def differing(options: CaptureOptions, found: Sequence[FoundTable]) -> Iterator[str]:
    """Yield where tables of a document are otherwise in the database: missing, or of other types."""
    there = {(table.namespace, table.name): table for table in found}
    for name, given in options.tables.items():
        place = options.placed(name, given)
        table = there.get(place)
        if table is None:
            yield f"{name}: the database has no table {'.'.join(place)}"
            continue
        columns = {column.name: column for column in table.columns}
        for column in given.table_schema:
            has = columns.get(column.name)
            if has is None:
                yield f"{name}: the database has no column {column.name}"
            elif not _holds(column.type or "", read_columns(f"c {has.type}")[0]):
                yield (
                    f"{name}.{column.name}: {(column.type or '').upper()} in the document, {has.native} "
                    f"in the database, which is read as {has.type}"
                )
        if set(given.key) != set(table.key):
            yield f"{name}: key {', '.join(given.key)}; the primary key is {', '.join(table.key)}"


def _holds(declared: str, fitting: Column) -> bool:
    """Whether a type holds every value of another, in Spark's short form."""
    kind = fitting.type or ""
    if declared in (kind, "string") or (declared, kind) == ("double", "float"):
        return True
    if declared in _WHOLE and kind in _WHOLE:
        return _WHOLE.index(declared) >= _WHOLE.index(kind)
    digits, scale = _decimal(declared, _ANY_DIGITS)
    needs, places = _decimal(kind, _DIGITS)
    return needs > 0 and digits - scale >= needs - places and scale >= places


def _decimal(kind: str, whole: Mapping[str, int]) -> tuple[int, int]:
    """Return the digits of a number type, and those behind the point; 0 for others."""
    if kind.startswith("decimal("):
        digits, scale = kind[8:-1].split(",")
        return int(digits), int(scale)
    return whole.get(kind, 0), 0


def as_yaml(section: Mapping[str, Any]) -> str:
    """Return part of a document as text."""
    text = StringIO()
    _yaml().dump(section, text)
    return text.getvalue()


def with_tables(file: Path, node: str, made: Mapping[str, Any]) -> None:
    """Write tables into a document, and leave all else there as it is.

    Raises:
        PipelineError: the source is not written out in it.
    """
    yaml = _yaml()
    document = yaml.load(file.read_text(encoding="utf-8"))
    try:
        options = document["sources"][node]["with"]
    except (KeyError, TypeError):
        raise PipelineError(f"{file} has no `with` of the source {node}") from None
    if not options.get("tables"):
        options["tables"] = {}
    options["tables"].update(made)
    text = StringIO()
    yaml.dump(document, text)
    write_whole(file, text.getvalue())


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    yaml.default_flow_style = None  # lists on one line
    return yaml
