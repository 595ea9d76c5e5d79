"""The tables of a document's source, made of what the database has."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from io import StringIO
from pathlib import Path
from typing import Any

from mainstem import PipelineError
from mainstem.columns import Column, quoted, read_columns
from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, SequenceNode

from mainstem_cdc.options import TAKEN, CaptureOptions, TableOptions
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
        given = next((each for each in reversed(names) if _means(options, each, table)), None)
        columns = [c for c in table.columns if c.name and not c.name.startswith("_")]
        if given is None:
            left.append(f"{place}: left out, as its name can't be written")
            continue
        if len(columns) < len(table.columns):
            left.append(f"{place}: without columns whose names begin with _")
        section = {
            **({} if given == name else {"table": given}),
            "key": list(table.key),
            "schema": ", ".join(f"{_column(c.name)} {c.type}" for c in columns),
        }
        try:
            TableOptions.model_validate(section)
        except ValidationError as error:
            left.append(f"{place}: left out: {error.errors()[0]['msg']}")
            continue
        made[name] = section
    return made, left


def _means(options: CaptureOptions, name: str, table: FoundTable) -> bool:
    """Whether a name in the document means a table."""
    given = TableOptions.model_construct(table=name)
    return options.placed("", given) == (table.namespace, table.name)


def _output(table: str, taken: set[str]) -> str:
    """Return a name of an output that is not taken."""
    name = re.sub(r"[^a-z0-9]+", "_", table.lower()).strip("_") or "table"
    name = name if name[0].isalpha() else f"t_{name}"
    name = f"{name}_table" if name in TAKEN else name
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
        PipelineError: the source, or its tables, are not written out in it line by line.
    """
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    options = _part(YAML().compose(text), "sources", node, "with")
    if options is None or options.flow_style or not options.value:
        raise PipelineError(
            f"{file} has no `with` of the source {node}, with a line for each option"
        )
    tables = _part(options, "tables")
    indent = options.value[0][0].start_mark.column
    if tables is None:
        at, head = _last_line(options) + 1, [" " * indent + "tables:"]
        deeper = indent + 2
    elif tables.value and not tables.flow_style:
        at, head, deeper = _last_line(tables) + 1, [], tables.value[0][0].start_mark.column
    elif tables.value:
        raise PipelineError(f"{file}: write the `tables` of {node} with a line for each table")
    else:  # {}
        at, deeper = tables.start_mark.line, indent + 2
        lines[at] = (
            lines[at][: tables.start_mark.column].rstrip() + lines[at][tables.end_mark.column :]
        )
        at, head = at + 1, []
    added = as_yaml(made).splitlines()
    lines[at:at] = [*head, *(" " * deeper + line for line in added)]
    beside = file.with_name(f".{file.name}.new")
    beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.copymode(file, beside)
    beside.replace(file)


def _part(node: Any, *names: str) -> Any:
    """Return a part of a document as its node; None if it is not there."""
    for name in names:
        found = (v for k, v in getattr(node, "value", ()) or () if getattr(k, "value", "") == name)
        node = next(found, None) if isinstance(node, MappingNode) else None
    return node if isinstance(node, MappingNode) else None


def _last_line(node: Any) -> int:
    """Return the last line that a node has something in."""
    if isinstance(node, MappingNode):
        return (
            max(_last_line(value) for _, value in node.value)
            if node.value
            else node.start_mark.line
        )
    if isinstance(node, SequenceNode) and node.value and not node.flow_style:
        return max(map(_last_line, node.value))
    end = node.end_mark
    return int(end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line)


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    yaml.default_flow_style = None  # lists on one line
    return yaml
