"""Debezium's JSON envelope: a message that tells how a row was and how it is now.

What an envelope holds, and how values are written in it, is told by Debezium's documentation of its
connectors (change events; data type mappings).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mainstem import Column, literal, quoted
from mainstem.builtin import far_times
from mainstem.builtin.far_times import far_time
from mainstem.builtin.json_text import EMPTY, MORE_TEXT, NO_OBJECT, NOT_JSON, NOT_UTF8
from mainstem.contracts.shapes import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What stands in the place of a large value that did not change and that the log has not.
_UNAVAILABLE = "__debezium_unavailable_value"
_FULL = "set the table's REPLICA IDENTITY to FULL"
#: The years 1 to 9999: of what is beyond, other programs make errors.
_DAYS = (-719_162, 2_932_896)
_SECONDS = (-62_135_596_800, 253_402_300_799)
_PER_SECOND = {"micros": 1_000_000, "millis": 1_000}
_SETTINGS = "map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '__corrupt')"
_BODY = ("op", "ts_ms", "source", "before", "after")


class Envelopes:
    """Turns envelopes into the changes that they tell.

    Args:
        columns: those of the table.
        keep: more columns: SQL expressions over the message columns, by name.
        key: the columns of the table's key.
        sequence: the one of `keep` that only grows for a key.
        preimages: whether rows as they were before come out too.
        unit: what a number counts where a TIMESTAMP is wanted: `micros` or `millis`.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        keep: Mapping[str, str],
        key: Iterable[str],
        sequence: str,
        *,
        preimages: bool,
        unit: str,
    ) -> None:
        keys = {name.lower() for name in key}
        self._columns = columns
        self._key = [column for column in columns if column.name.lower() in keys]
        self._keep = keep
        self._sequence = sequence
        self._preimages = preimages
        self._unit = unit

    def changes(self, frame: DataFrame, *, told: bool) -> DataFrame:
        """Return the changes of each message, with `_output` and, if `told`, `_rejected`.

        A message gives a row for each state of the changed row; one that is refused gives one. A
        message without a value deletes its key where nobody asks for pre-images. Where they are asked
        for it gives nothing: the deletion, with its pre-image, is the message before it.
        """
        reserved = [quoted(name) for name in frame.columns if name.startswith("_")]
        kept = [quoted(name) for name in self._keep]
        key = "CAST(key AS STRING)" if "key" in frame.columns else "CAST(NULL AS STRING)"
        good = "__reason IS NULL"
        return (
            frame.selectExpr(
                *reserved,
                *(f"{text} AS {quoted(name)}" for name, text in self._keep.items()),
                "value AS __raw",
                "CAST(value AS STRING) AS __text",
                f"{key} AS __key",
            )
            .selectExpr(
                "*", f"{self._parsed()} AS __parsed", f"{self._parsed_key()} AS __parsed_key"
            )
            .selectExpr("*", f"{_unwrapped()} AS __body")
            .selectExpr(
                "*",
                f"{self._row('__body.before')} AS __before",
                f"{self._row('__body.after')} AS __after",
                f"{self._row('__body.before', self._key)} AS __gone",
                f"{self._row('__parsed_key', self._key)} AS __keyed",
            )
            .selectExpr("*", f"{self._reason(told=told)} AS __reason")
            .selectExpr("*", f"explode({self._exploded()}) AS __change")
            .selectExpr(
                *reserved,
                *(f"__change.row.{quoted(column.name)}" for column in self._columns),
                *kept,
                f"__change.type AS {CHANGE_TYPE}",
                f"{quoted(self._sequence)} AS {COMMIT_VERSION}",
                f"{_committed()} AS {COMMIT_TIMESTAMP}",
                f"IF({good}, NULL, 'rejected') AS _output",
                *(
                    [f"IF({good}, NULL, struct(__reason AS reason, __raw AS payload)) AS _rejected"]
                    if told
                    else []
                ),
            )
        )

    def _parsed(self) -> str:
        """Return SQL for the value as an envelope, or as the object around one that has its schema."""
        row = f"STRUCT<{_as_written(self._columns)}>"
        body = f"op STRING, ts_ms BIGINT, source STRUCT<ts_ms BIGINT>, before {row}, after {row}"
        return _from_json("__text", f"payload STRUCT<{body}>, {body}, __corrupt STRING")

    def _parsed_key(self) -> str:
        """Return SQL for the message's key, which may have its schema around it too."""
        row = _as_written(self._key)
        inside = _from_json("__key", f"payload STRUCT<{row}>")
        return f"coalesce({inside}.payload, {_from_json('__key', row)})"

    def _row(self, written: str, only: Sequence[Column] | None = None) -> str:
        """Return SQL for a row of the table, made of one as it is written; other columns are null."""
        values = (
            f"{literal(column.name)}, {self._read(written, column)}"
            if only is None or column in only
            else f"{literal(column.name)}, CAST(NULL AS {column.type})"
            for column in self._columns
        )
        return f"IF({written} IS NULL, NULL, named_struct({', '.join(values)}))"

    def _read(self, written: str, column: Column) -> str:
        """Return SQL for a value, null if it can't be read."""
        value = f"{written}.{quoted(column.name)}"
        number = f"try_cast({value} AS BIGINT)"
        kind = _kind(column)
        if kind == "date":
            first, last = _DAYS
            when = f"date_add(DATE'1970-01-01', CAST({number} AS INT))"
        elif kind in ("timestamp", "timestamp_ntz"):
            first, last = _between(self._unit)
            when = f"CAST(timestamp_{self._unit}({number}) AS {kind})"
        if kind in ("date", "timestamp", "timestamp_ntz"):
            text = f"try_cast({value} AS {kind})"
            return (
                f"CASE WHEN {number} BETWEEN {first} AND {last} THEN {when} "
                f"WHEN {value} RLIKE '^[0-9]{{4}}-' AND NOT ({far_time(text, kind)}) THEN {text} END"
            )
        if kind == "decimal":
            return f"try_cast({value} AS {column.type})"
        if kind == "variant":
            return f"try_parse_json({value})"
        return value

    def _exploded(self) -> str:
        """Return SQL for the array of a message's changes."""
        row = ", ".join(f"{quoted(column.name)} {column.type}" for column in self._columns)
        type_ = f"ARRAY<STRUCT<type STRING, row STRUCT<{row}>>>"

        def changes(*pairs: tuple[str, str]) -> str:
            made = (f"named_struct('type', {name}, 'row', {state})" for name, state in pairs)
            return f"CAST(array({', '.join(made)}) AS {type_})"

        before = [("'update_preimage'", "__before")] if self._preimages else []
        gone = "__before" if self._preimages else "coalesce(__gone, __keyed)"
        return (
            f"CASE WHEN __reason IS NOT NULL THEN {changes(('NULL', 'NULL'))} "
            f"WHEN __raw IS NULL THEN {changes(*self._tombstone())} "
            f"WHEN __body.op = 'u' THEN {changes(*before, (_POST, '__after'))} "
            f"WHEN __body.op = 'd' THEN {changes((_DELETE, gone))} "
            f"ELSE {changes((_INSERT, '__after'))} END"
        )

    def _tombstone(self) -> list[tuple[str, str]]:
        return [] if self._preimages else [(_DELETE, "__keyed")]

    def _reason(self, *, told: bool) -> str:
        """Return SQL for why a message is refused, null if it is not."""
        op = "__body.op"
        broken = "__parsed.__corrupt IS NOT NULL"
        cases = [
            (f"{quoted(self._sequence)} IS NULL", literal(f"{self._sequence} is null")),
            *self._without_value(),
            NOT_UTF8,
            EMPTY,
            *((f"{broken} AND {found}", words) for found, words in (NOT_JSON, NO_OBJECT)),
            (broken, self._misfits()),
            MORE_TEXT,
            (f"{op} IS NULL", "'no envelope: it has no op'"),
            (f"{op} NOT IN ('c', 'r', 'u', 'd')", f"concat('op ', {op}, ' changes no row')"),
            (f"{op} != 'd' AND __after IS NULL", f"concat('op ', {op}, ' without after')"),
            *self._unread("__after", "__body.after", self._columns, f"{op} != 'd'"),
            *self._before(),
        ]
        branches = (
            f"WHEN {found} THEN {words if told or words == _GOOD else literal('')}"
            for found, words in cases
        )
        return f"CASE {' '.join(branches)} END"

    def _without_value(self) -> list[tuple[str, str]]:
        """Return what is asked of messages without a value; none of them goes on to other questions."""
        null = "__raw IS NULL"
        words = "concat('no value, and the key has no ', {})"
        missing = [] if self._preimages else self._key
        return [
            *(
                (f"{null} AND __keyed.{quoted(c.name)} IS NULL", words.format(literal(c.name)))
                for c in missing
            ),
            (null, _GOOD),
        ]

    def _before(self) -> list[tuple[str, str]]:
        """Return what is asked of the state before."""
        op = "__body.op"
        if self._preimages:
            told = f"{op} IN ('u', 'd')"
            return [
                (f"{told} AND __before IS NULL", literal(f"no state before: {_FULL}")),
                *self._unread("__before", "__body.before", self._columns, told),
            ]
        gone = "coalesce(__gone, __keyed)"
        return [
            (f"{op} = 'd' AND {gone}.{quoted(c.name)} IS NULL", literal(f"{c.name} is null"))
            for c in self._key
        ]

    def _unread(
        self, row: str, written: str, columns: Sequence[Column], when: str
    ) -> list[tuple[str, str]]:
        """Return what is asked of the values of a row that must be there."""
        cases = []
        for column in columns:
            value, text = f"{row}.{quoted(column.name)}", f"{written}.{quoted(column.name)}"
            if _kind(column) in ("string", "binary"):
                missing = f"CAST({text} AS STRING) = '{_UNAVAILABLE}'"
                cases.append((missing, literal(f"{column.name} is not in the message: {_FULL}")))
            if _as_text(column):
                misfit = f"{value} IS NULL AND {text} IS NOT NULL"
                cases.append((misfit, literal(f"{column.name} is no {str(column.type).upper()}")))
            elif far := far_time(value, column.type):
                cases.append((far, literal(f"{column.name} {far_times.WORDS}")))
            if not column.nullable or column in self._key:
                cases.append((f"{value} IS NULL", literal(f"{column.name} is null")))
        return [(f"{when} AND {found}", words) for found, words in cases]

    def _misfits(self) -> str:
        """Return SQL that names the columns whose text does not fit their types."""
        found = []
        for image in ("before", "after"):
            for column in self._columns:
                value = f"__body.{image}.{quoted(column.name)}"
                paths = (f"$.{image}['{column.name}']", f"$.payload.{image}['{column.name}']")
                there = " OR ".join(
                    f"get_json_object(__text, {literal(path)}) IS NOT NULL" for path in paths
                )
                words = literal(f"{column.name} is no {str(column.type).upper()}")
                found.append(f"IF({value} IS NULL AND ({there}), {words}, NULL)")
        listed = f"array_distinct(filter(array({', '.join(found)}), x -> x IS NOT NULL))"
        return f"coalesce(nullif(array_join({listed}, ', '), ''), 'does not fit the schema')"


#: The reason of a message that is not refused.
_GOOD = "CAST(NULL AS STRING)"
_INSERT, _POST, _DELETE = "'insert'", "'update_postimage'", "'delete'"
#: Types of which JSON has none: taken as text, then read as Debezium writes them.
_AS_TEXT = ("date", "timestamp", "timestamp_ntz", "decimal", "variant")


def _between(unit: str) -> tuple[int, int]:
    """Return the first and the last number that a time can be."""
    first, last = _SECONDS
    return first * _PER_SECOND[unit], (last + 1) * _PER_SECOND[unit] - 1


def _committed() -> str:
    """Return SQL for when the database made the change, null if that is not told."""
    first, last = _between("millis")
    at = "coalesce(__body.source.ts_ms, __body.ts_ms)"
    return f"IF({at} BETWEEN {first} AND {last}, timestamp_millis({at}), NULL)"


def _kind(column: Column) -> str:
    return str(column.type).partition("(")[0].lower()


def _as_text(column: Column) -> bool:
    return _kind(column) in _AS_TEXT


def _as_written(columns: Iterable[Column]) -> str:
    """Return the columns of a row as it is written, in SQL."""
    types = ((c.name, "STRING" if _as_text(c) else c.type) for c in columns)
    return ", ".join(f"{quoted(name)} {type_}" for name, type_ in types)


def _from_json(text: str, ddl: str) -> str:
    return f"from_json({text}, {literal(ddl)}, {_SETTINGS})"


def _unwrapped() -> str:
    """Return SQL for the envelope, wherever it is."""
    plain = ", ".join(f"'{name}', __parsed.{name}" for name in _BODY)
    return f"coalesce(__parsed.payload, named_struct({plain}))"
