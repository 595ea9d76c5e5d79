"""Sink `redis_table`: keeps a hash or a string for each row of a table in step with its changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mainstem import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    Accepts,
    Batch,
    Changelog,
    Comparable,
    Compared,
    Dataset,
    KeyedWrites,
    Level,
    Located,
    OptionError,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    Typed,
)
from mainstem.columns import Column, Template, find_column, json_sql, literal, odd_key, quoted

from mainstem_cache_redis.options import RedisTableOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

#: What tasks are given of a change, beside its kind: its key and version; the hash's name, and version
#: and fields, as Redis takes arguments (RESP's bulk strings); how many these are.
KEY, VERSION, NAME, ARGUMENTS, COUNT = "key", "version", "name", "arguments", "count"
#: Texts that order as the values of these types do.
_VERSIONS = {
    **dict.fromkeys(
        ("tinyint", "smallint", "int", "bigint"),
        "lpad(CAST(CAST({0} AS DECIMAL(20,0)) + 9223372036854775808 AS STRING), 20, '0')",
    ),
    "timestamp": "lpad(CAST(CAST(unix_micros({0}) AS DECIMAL(20,0)) + 9223372036854775808 AS STRING), "
    "20, '0')",
    # A server compares text by its own locale.
    "string": "hex(CAST({0} AS BINARY))",
    "binary": "hex({0})",
}
_DURABLE = (
    "Redis keeps what it has answered: with `appendfsync everysec` a crash of the server loses the last "
    "second, without `appendonly` more; a failover loses what no replica had"
)
#: Types whose text in a name is that of the field.
_PLAIN = ("string", "tinyint", "smallint", "int", "bigint", "boolean", "date")
#: Types that have no text of their own.
_NOT_TEXT = ("array", "map", "struct", "variant", "interval", "void")
#: Types that JSON does not have.
_NOT_JSON = ("interval", "void")
_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


class RedisTable(Sink, Typed, KeyedWrites, Comparable, Located):
    """Sets a hash or a string for each row of a table, and deletes those of rows that go.

    Redis compares and sets by itself: a change takes effect only over an older one, so that a batch that
    is written again, or a replay, changes nothing.
    """

    options: RedisTableOptions
    accepts = Accepts((Changelog,))
    capabilities = SinkCapabilities(
        assumptions=(
            _DURABLE,
            "nobody else writes what the rows become",
            (
                "no older change comes more than `deletes_within` after a deletion, or `ttl` after the "
                "row's last change"
            ),
        ),
        shown={
            "idempotent": Shown(
                Level.EXACTLY_ONCE, "packages/cache-redis/tests/test_redis_table.py"
            )
        },
    )

    def datasets(self, output: str) -> Sequence[Dataset]:
        return [self.options.dataset(self.options.key)]

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse a template that does not name the key, and a sequence that texts can't order."""
        assert isinstance(shape, Changelog)  # noqa: S101
        columns_named = Template(self.options.key).columns
        named = {name.lower() for name in columns_named}
        if named != {name.lower() for name in shape.key}:
            raise OptionError(
                f"the table's key is {', '.join(shape.key)}, and the template names "
                f"{', '.join(columns_named)}",
                option="key",
            )
        where = {"hash": "a field of a hash", "json": "JSON", "value": "a string"}[
            self.options.format
        ]
        held = list(columns)
        if self.options.value is not None:
            own = [column for column in columns if not column.name.startswith("_")]
            held = [find_column(own, self.options.value, "value")]
        for column in held:
            held_type = column.type or ""
            if held_type.startswith(_NOT_JSON if self.options.format == "json" else _NOT_TEXT):
                raise OptionError(
                    f"{where} can't hold the column {column.name}, of type {held_type}",
                    hint="Make text of it before: to_json(x).",
                )
            if self.options.format == "json" and odd_key(held_type):
                raise OptionError(
                    f"JSON can't hold the column {column.name}, of type {held_type}: keys are text",
                    hint="Give the map keys of text.",
                )
        known = {column.name: column.type for column in columns}
        kind = known.get(COMMIT_VERSION)
        if kind is not None and kind not in _VERSIONS:
            raise OptionError(
                f"the sequence is of type {kind}: expected a whole number, a TIMESTAMP, text or bytes"
            )

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        return self.write_keyed(frame, batch)

    def write_keyed(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        from mainstem.changes import write_changes

        from mainstem_cache_redis.rows import Rows

        shape = batch.shape
        assert isinstance(shape, Changelog)  # noqa: S101
        kinds = dict(frame.dtypes)
        # Without a sequence what comes last counts: another checkpoint numbers its batches from 0.
        version = "''"
        if shape.sequence is not None:
            version = _VERSIONS[kinds[COMMIT_VERSION]].format(quoted(COMMIT_VERSION))
        names = [name for name in frame.columns if not name.startswith("_")]
        key, gone = Template(self.options.key).row_sql(), f"{CHANGE_TYPE} = 'delete'"
        if self.options.format == "hash":
            held = []
            for name in names:
                pair = f"{_packed(literal(name))}, {_packed(_text(name, kinds[name]))}"
                held.append(f"IF({quoted(name)} IS NULL, X'', concat({pair}))")
            present = [f"IF({quoted(name)} IS NULL, 0, 1)" for name in names]
            count = f"({' + '.join(present) or '0'})"
        else:
            # One pair, whose name is not looked at.
            held, count = [_packed("''"), _packed(self._string(names, kinds))], "1"
        number = f"CAST(IF({gone}, -1, {count}) AS STRING)"
        fields = f"IF({gone}, X'', concat({', '.join(held)}))" if held else "X''"
        rows = frame.selectExpr(
            f"{key} AS {KEY}",
            f"{version} AS {VERSION}",
            CHANGE_TYPE,
            f"{_packed(key)} AS {NAME}",
            f"concat({_packed(version)}, {_packed(number)}, {fields}) AS {ARGUMENTS}",
            f"2 + IF({gone}, 0, 2 * {count}) AS {COUNT}",
        )
        target = partial(
            Rows,
            self.options,
            f"mainstem {batch.pipeline} {batch.sink}",
            f"mainstem:{batch.pipeline}:{batch.sink}:{batch.query_id}:{self.options.key}",
            batch.epoch,
        )
        return write_changes(rows, [KEY], VERSION if shape.sequence is not None else None, target)

    def _string(self, names: Sequence[str], kinds: Mapping[str, str]) -> str:
        """Return the SQL of what a string holds of a row."""
        if self.options.value is None:
            return json_sql(names)
        name = next(n for n in names if n.lower() == self.options.value.lower())
        return f"coalesce({_text(name, kinds[name])}, X'')"

    # -- Comparable -------------------------------------------------------------------------------

    def compared(self, columns: Sequence[Column], shape: Shape) -> Compared:
        kinds = {column.name: column.type or "string" for column in columns}
        template = Template(self.options.key)
        for column in (find_column(columns, name, "key") for name in template.columns):
            if column.type not in _PLAIN:
                raise OptionError(
                    f"a row's name can't be made of its column {column.name}, of type {column.type}, "
                    "so that it is not known which names are of the table"
                )
        if self.options.format != "hash":
            text = self._string([n for n in kinds if not n.startswith("_")], kinds)
            content = f"hex({text})"
            return Compared(
                template.row_sql(), content, "key STRING, content STRING", "key", "content"
            )
        # As `content_of` has it.
        fields = [
            f"concat({literal(name + '=')}, hex({_text(name, kinds[name])}))"
            for name in sorted(name for name in kinds if not name.startswith("_"))
        ]
        content = f"concat_ws(' ', {', '.join(fields)})" if fields else "''"
        return Compared(template.row_sql(), content, "key STRING, content STRING", "key", "content")

    def held(
        self, columns: Sequence[Column], shape: Shape, take: Callable[[pa.RecordBatch], None]
    ) -> None:
        from mainstem_cache_redis.holding import Holding

        with Holding(self.options) as holding:
            holding.rows(take)

    def repair(self, rows: DataFrame | None, extra: DataFrame | None, batch: Batch) -> None:
        """Forget the hashes, and what is known of them, and write them anew."""
        from mainstem_cache_redis.holding import Holding

        with Holding(self.options) as holding:
            if rows is not None:
                found = rows.selectExpr(f"{Template(self.options.key).row_sql()} AS key")
                holding.forget(row["key"] for row in found.toLocalIterator())
            if extra is not None:
                holding.forget(row["key"] for row in extra.toLocalIterator())
        if rows is not None:
            self.write_keyed(rows, batch)


def _packed(value: str) -> str:
    """Return the SQL of an argument as Redis takes it."""
    data = f"CAST({value} AS BINARY)"
    size = f"CAST(concat('$', octet_length({data}), '\\r\\n') AS BINARY)"
    return f"concat({size}, {data}, X'0D0A')"


def _text(name: str, kind: str) -> str:
    """Return the SQL of a column's value as bytes: text as it is, times by ISO 8601."""
    column = quoted(name)
    if kind == "binary":
        return column
    if kind == "timestamp":
        text = f"date_format({column}, {literal(_TIME)})"
    else:
        text = f"CAST({column} AS STRING)"
    return f"CAST({text} AS BINARY)"
