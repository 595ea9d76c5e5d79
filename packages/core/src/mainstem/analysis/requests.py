"""What Spark's analyser is asked, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mainstem.contracts.abilities import Statement
from mainstem.contracts.ddl import quoted

#: By the name of each table: its columns and their types, None where nobody knows.
Tables = Mapping[str, Sequence[tuple[str, str | None]]]


@dataclass(frozen=True)
class Request:
    """SQL over tables.

    `prefix` and `suffix` make of `text` a whole query that Spark can analyse.
    """

    text: str
    whole: bool
    prefix: str
    suffix: str
    conf: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Fault:
    """Why SQL is wrong.

    Attributes:
        condition: Spark's name for it.
        message: Spark's words.
        start: where in the text it is, from 0, if that is known.
        parameters: what the words are about.
        function: the function that Spark does not have, if that is it.
        hint: the one that was meant, in a sentence.
    """

    condition: str
    message: str
    start: int | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    function: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Answer:
    """What the analyser says of a request.

    Attributes:
        fault: why it is wrong; None if it is right.
        columns: name and type (SQL) of what it gives.
        steps: the names of Spark's nodes in its plan, above what is none of the user's.
        distinct: whether an aggregate function is over distinct values.
        unknown: Spark could not tell, for it does not know a table: nothing else is said then.
    """

    fault: Fault | None = None
    columns: tuple[tuple[str, str], ...] = ()
    steps: tuple[str, ...] = ()
    distinct: bool = False
    unknown: bool = False

    def as_json(self) -> str:
        """Write the answer as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Answer:
        """Read what `as_json` wrote."""
        found: dict[str, Any] = json.loads(text)
        fault = found["fault"]
        fault = fault and Fault(**fault)
        columns = tuple((name, kind) for name, kind in found["columns"])
        return Answer(fault, columns, tuple(found["steps"]), found["distinct"], found["unknown"])


#: Asks the analyser; as many answers as requests, in their order. None: nobody can tell.
Analyse = Callable[[Sequence[Request]], Sequence[Answer | None]]


def request(statement: Statement, tables: Tables, conf: Mapping[str, str]) -> Request:
    """Return what is to be asked about a statement of a document."""
    made = ", ".join(f"{quoted(name)} AS ({_table(columns)})" for name, columns in tables.items())
    prefix = f"WITH {made} (\n{statement.before}"
    settings = tuple(sorted((k, v) for k, v in conf.items() if k.startswith("spark.sql.")))
    whole = not statement.before
    return Request(statement.text, whole, prefix, f"{statement.after}\n)", settings)


def _table(columns: Sequence[tuple[str, str | None]]) -> str:
    values = (
        f"{'NULL' if kind is None else f'CAST(NULL AS {kind})'} AS {quoted(name)}"
        for name, kind in columns
    )
    # Without rows, so that Spark folds nothing away.
    return f"SELECT {', '.join(values) or '1 AS `_nothing`'} FROM range(1)"  # noqa: S608
