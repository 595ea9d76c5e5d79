"""Columns as options name them: found by name, and refused with words that help.

Names compare as Spark's do: case aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from mainstem.contracts.ddl import Column, literal, parts_of, quoted
from mainstem.errors import OptionError, nearest

#: The columns whose order is that of the log which messages come from.
LOG_ORDER = ("origin", "partition", "position")
#: The words of SQL, but for those in comments, texts and numbers.
_WORDS = re.compile(
    r"""--[^\n]*|/\*.*?\*/|\b[rR](?:'[^']*'|"[^"]*")"""
    r"""|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d[\w.]*|(`(?:[^`]|``)+`|[^\W\d]\w*)""",
    re.DOTALL,
)
_STAR = re.compile(r"(?:^|[(,.]|\b(?:select|distinct|all))\s*\*", re.IGNORECASE)


def names_all(text: str) -> bool:
    """Whether SQL names all columns, as `struct(*)` and `SELECT *` do, and `count(*)` seems to."""
    return _STAR.search(text) is not None


def words_in(sql: str) -> list[str]:
    """Return the words of SQL as they stand there, names in backticks among them, in its order."""
    return [word for word in _WORDS.findall(sql) if word]


def find_column(
    columns: Iterable[Column], name: str, option: str, *, whose: str = "", hint: str = ""
) -> Column:
    """Return the column that an option names.

    Args:
        option: the option, for the line in the document.
        whose: what should have the column (`the right table`), where there are several.
        hint: the next step where no name is near; all names when left out.

    Raises:
        OptionError: there is no such column.
    """
    columns = list(columns)
    for column in columns:
        if column.name.lower() == name.lower():
            return column
    names = [column.name for column in columns]
    said = f"{whose} has no column {name!r}" if whose else f"there is no column {name!r}"
    told = nearest(name, names) or hint or f"Columns: {', '.join(names)}."
    raise OptionError(said, option=option, hint=told)


def check_names(names: Iterable[str], option: str) -> None:
    """Look whether columns can have the names that an option gives them.

    Raises:
        OptionError: one is empty, reserved, or there twice.
    """
    there: set[str] = set()
    for name in names:
        if not name:
            raise OptionError("a column needs a name", option=option)
        if name.startswith("_"):
            raise OptionError(f"{name!r}: names that begin with _ are reserved", option=option)
        if name.lower() in there:
            raise OptionError(f"there would be two columns {name!r}", option=option)
        there.add(name.lower())


def check_types(columns: Iterable[Column], wanted: Mapping[str, Sequence[str]]) -> None:
    """Look whether columns are of types that can be what their names say.

    Args:
        wanted: the types by name, in Spark's short form. A column that is not there may be left out,
            and one whose type only Spark can know passes.

    Raises:
        OptionError: one is of another type.
    """
    types = {column.name.lower(): column.type for column in columns}
    for name, allowed in wanted.items():
        kind = types.get(name.lower())
        if kind is not None and kind.replace(" ", "") not in allowed:
            raise OptionError(
                f"column {name} is {kind}, and must be {' or '.join(allowed)}",
                hint="Turn it into that, or drop it, with the operator `select`.",
            )


def check_fields(given: Iterable[Column], fields: Iterable[Column], option: str) -> None:
    """Refuse columns that are no fields of a schema, or of another type than theirs.

    Args:
        given: the columns that are written; what has no known type is only looked for by its name.
        fields: those of the schema, all of known type.
        option: that names the schema.

    Raises:
        OptionError: of the first that does not fit.
    """
    known = {field.name: field for field in fields}
    for column in given:
        field = known.get(column.name)
        if field is None:
            hint = f"It has {', '.join(known)}."
            raise OptionError(f"the schema has no field {column.name}", option=option, hint=hint)
        if column.type is not None and column.type != field.type:
            told = f"column {column.name} is {column.type}, the field {field.type}"
            raise OptionError(told, option=option, hint="Cast it before.")


def check_maps(columns: Iterable[Column], format_: str) -> None:
    """Look whether columns can be written in a format of maps by name.

    Raises:
        OptionError: one can't: a VARIANT, and a MAP whose keys are made of parts.
    """

    def check(column: str, kind: str, *, key: bool = False) -> None:
        word = kind.partition("<")[0].strip()
        if word == "variant" or (key and word in ("array", "map", "struct")):
            what = f"keys of type {kind.upper()}" if key else "values of type VARIANT"
            raise OptionError(f"{format_} has no {what}, as column {column}", option="format")
        for part in parts_of(kind):
            check(column, part.type or "", key=word == "map" and part.name == "key")

    for column in columns:
        check(column.name, column.type or "")


def check_order(
    columns: Iterable[Column],
    option: str,
    hint: str,
    *,
    key: str | None = "key",
    whose: str = "a key's",
) -> None:
    """Look whether the order of each key's messages can be known.

    Args:
        option: the option that asks for it, for the line in the document.
        hint: what to write if it need not be kept.
        key: the column of the key; None if it is no column.
        whose: what the key is, for the error.

    Raises:
        OptionError: a column is missing for it.
    """
    there = {column.name.lower() for column in columns}
    missing = [name for name in (*LOG_ORDER, *filter(None, [key])) if name.lower() not in there]
    if missing:
        raise OptionError(
            f"without {', '.join(missing)} nobody knows the order of {whose} messages",
            option=option,
            hint=f"Keep these columns of the source's (`keep` of `decode` and `encode`), or {hint}.",
        )


def version_sql(kind: str) -> str | None:
    """Return SQL that makes a BIGINT version of a sequence, `{0}`; None where its type has none.

    Versions order as sequences do. Changes of a database's log have text as sequence: 16 hexadecimal
    digits for the transaction, which are the version, and more for the change in it; those of a join of
    two tables have what the left table's sequence makes, and more. So several changes of a key may have
    one version; a later one of these must win over an earlier.

    Args:
        kind: the sequence's type.
    """
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return "CAST({0} AS BIGINT)"
    if kind == "timestamp":
        return "unix_micros({0})"
    if kind == "string":
        digits = "{0} RLIKE '^[0-7][0-9a-fA-F]{{15}}([^0-9a-zA-Z]|$)'"
        return f"IF({digits}, CAST(conv(left({{0}}, 16), 16, 10) AS BIGINT), NULL)"
    return None


_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


def with_unknown(columns: Sequence[Column], unknown: str | None) -> tuple[Column, ...]:
    """Return columns with that of the fields which nobody knows.

    Raises:
        OptionError: its name is none, or that of another.
    """
    if unknown is None:
        return tuple(columns)
    check_names([unknown], "unknown")
    if unknown.lower() in {column.name.lower() for column in columns}:
        raise OptionError(f"column {unknown!r} is already in the schema", option="unknown")
    return (*columns, Column(unknown, "variant"))


def odd_key(kind: str) -> str | None:
    """Return the MAP in a type whose keys Spark makes no keys of JSON; None if there is none."""
    parts = parts_of(kind)
    if kind.startswith("map<") and (parts[0].type or "").startswith(_ODD_KEYS):
        return kind
    return next(filter(None, (odd_key(part.type or "") for part in parts)), None)


_ODD_KEYS = ("binary", "array", "struct", "date", "timestamp")


def json_sql(columns: Iterable[str] | Mapping[str, str], *, nulls: bool = False) -> str:
    """Return SQL of a row as a JSON object: times by ISO 8601 in UTC, bytes as base64.

    Args:
        columns: the names of a frame's columns, of which reserved ones are left out; or SQL by name.
        nulls: whether what is null is written, instead of left out.
    """
    if not isinstance(columns, Mapping):
        columns = {name: quoted(name) for name in columns if not name.startswith("_")}
    if not columns:
        return "'{}'"
    options = (
        f"map('timestampFormat', {literal(_TIME + 'XXX')}, "
        f"'timestampNTZFormat', {literal(_TIME)}, 'ignoreNullFields', '{str(not nulls).lower()}')"
    )
    values = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns.items())
    return f"to_json(struct({values}), {options})"
