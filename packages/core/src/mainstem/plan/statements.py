"""Has the SQL of a node looked at by Spark's analyser, and takes the types that it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mainstem.analysis import words
from mainstem.analysis.requests import Analyse, Answer, Tables, request
from mainstem.contracts.abilities import Checked, Statement
from mainstem.contracts.ddl import Column, DDLError, read_columns
from mainstem.contracts.shapes import Changelog, Inputs, Shape
from mainstem.plan.model import Node

#: Told of a problem: the option, the message, the hint, and where in the text it is, if known.
Tell = Callable[[str, str, str, int | None], None]


def look(
    node: Node, inputs: Inputs[Shape], analyse: Analyse, conf: Mapping[str, str], tell: Tell
) -> None:
    """Tell what is wrong with a node's SQL, and fill in the types of columns that it gives."""
    if not isinstance(node.component, Checked):
        return
    statements = list(node.component.statements(inputs))
    tables = {port: _columns(shape) for port, shape in inputs.items()}
    answers = analyse([request(each, tables, conf) for each in statements])
    types: dict[str, str] = {}
    for statement, answer in zip(statements, answers, strict=True):
        if answer is None or answer.unknown:
            continue
        if found := words.flaw(statement, answer, tables):
            message, hint = found
            tell(statement.option, message, hint, answer.fault.start if answer.fault else None)
        elif answer.fault is None:
            types |= _given(statement, answer, tables, tell)
    if node.shape is not None and types:
        columns = tuple(_typed(column, types) for column in node.shape.columns)
        node.shape = replace(node.shape, columns=columns)


def _columns(shape: Shape) -> list[tuple[str, str | None]]:
    more = shape.change_columns if isinstance(shape, Changelog) else ()
    columns = [*shape.columns, *more, Column("_id", "binary")]
    return [(column.name, column.type) for column in columns]


def _given(statement: Statement, answer: Answer, tables: Tables, tell: Tell) -> dict[str, str]:
    """Return the types of columns that a statement gives, if they can be relied on."""
    if any(kind is None for columns in tables.values() for _, kind in columns):
        return {}
    given = {name: found for name, sql in answer.columns if (found := _type(sql))}
    if statement.form == "query":
        wrong = [
            f"{column.name} is {given[column.name].upper()}, not {(column.type or '').upper()}"
            for column in statement.columns
            if column.name in given and column.type != given[column.name]
        ]
        names = [name for name, _ in answer.columns]
        wrong += [f"there is no column {c.name}" for c in statement.columns if c.name not in names]
        if wrong:
            told = ", ".join(f"{n} {t.upper()}" for n, t in given.items() if not n.startswith("_"))
            tell(
                "schema",
                f"does not fit what `query` gives: {'; '.join(wrong)}",
                f"It gives: {told}.",
                None,
            )
    if statement.column is None or not given:
        return {}
    return {statement.column.lower(): next(iter(given.values()))}


def _type(sql: str) -> str | None:
    """Return a type of Spark's in the short form; None if it has none in DDL."""
    try:
        (column,) = read_columns(f"value {sql}")
    except (DDLError, ValueError):
        return None
    return column.type


def _typed(column: Column, types: Mapping[str, str]) -> Column:
    found = types.get(column.name.lower())
    return replace(column, type=found) if column.type is None and found else column
