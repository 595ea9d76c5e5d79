"""Operator `decode`: the bytes of a message become columns; what does not fit goes to `rejected`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from mainstem import (
    MESSAGES,
    REJECTED,
    Changelog,
    ChangesDecoder,
    ChangesOptions,
    Decoder,
    Events,
    Inputs,
    Needs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Schema,
    Shape,
    option,
)
from mainstem.builtin.decoding import NO_VARIANT, Decoding, unread_variants, with_variants
from mainstem.builtin.envelopes import ATTRIBUTES, Opening
from mainstem.columns import Column, literal, quoted, unquoted
from mainstem.contracts.abilities import Branching, Checked, Deriving, Expressions, Statement
from mainstem.contracts.columns import check_names, find_column, words_in
from mainstem.contracts.components import Find
from mainstem.contracts.ddl import parts_of
from mainstem.contracts.formats import FormattedOptions, with_format
from mainstem.contracts.options import Size
from mainstem.contracts.shapes import (
    ALONG,
    CHANGE_TYPE,
    CHANGELOG_COLUMNS,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
)
from mainstem.formats.words import Codec

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_POSITION = "position"


class DecodeOptions(FormattedOptions):
    """Options of `decode`, to which those of the format are added."""

    table_schema: Schema | None = option(
        None,
        alias="schema",
        description="The columns. NOT NULL ones must have a value. Without a schema, json becomes "
        "one VARIANT column.",
        example="order_id STRING NOT NULL, cents BIGINT",
    )
    keep: dict[str, str] = option(
        dict,
        description="More columns: SQL expressions over the message columns, by name.",
        example={"event": "CAST(headers['X-GitHub-Event'] AS STRING)"},
    )
    tombstones: Literal["reject", "null"] = option(
        "reject",
        description="A message without a value: `reject` refuses it, `null` makes it a row of nulls "
        "beside what `keep` has, such as its key: in a compacted log it says that the key is gone.",
    )
    envelope: Literal["sns", "cloudevents"] | None = option(
        None,
        description="What the value is wrapped in: `sns`, the JSON that Amazon SNS makes of a message, "
        "or `cloudevents`, a CloudEvent, whole in the value or with its attributes among the headers. "
        "What is in it is decoded; `value` in `keep` is that, too, and `attributes['type']` is what a "
        "CloudEvent says of it.",
    )
    compression: Codec | None = option(
        None,
        description="How each value is compressed: as one gzip member, one zstd or LZ4 frame, or "
        "one snappy block.",
    )
    max_size: Size = option(
        "64 MiB",
        validate_default=True,
        advanced=True,
        description="The most that a compressed value, or the rows of one that holds many, may become; a "
        "larger one is refused.",
    )


class Decode(Operator, Branching, Expressions, Checked, Deriving):
    """Turns messages into columns by a schema; what does not decode goes to `rejected`.

    Where a format tells several types apart, each is an output of its own.
    """

    options: DecodeOptions
    option_kinds = {"format": "format"}
    ports = {"input": MESSAGES}

    def __init__(self, options: DecodeOptions) -> None:
        super().__init__(options)
        self.decoder = options.made(Decoder)  # type: ignore[type-abstract]

    def needs(self) -> Needs:
        return self.decoder.needs()

    @classmethod
    def options_for(cls, given: Mapping[str, Any], find: Find) -> type[Options]:
        return with_format(DecodeOptions, "decoder", given, find)

    @property
    def capabilities(self) -> OperatorCapabilities:  # type: ignore[override]
        """A message is one row, but what tells of changes can tell of two, and a table has many."""
        one = not (self._tells_changes or self.decoder.many)
        return OperatorCapabilities(row_wise=True, keeps_rows=one, splits=bool(self.decoder.types))

    def made_of(self, inputs: Inputs[Shape]) -> Mapping[str, Iterable[tuple[str, str]]]:
        options, parts = self.options, ["value"]
        if self._tells_changes:
            parts.append("key")
        if options.envelope is not None or self.decoder.headers:
            parts.append("headers")
        value = [("input", part) for part in parts]
        own = self.decoder.columns(options.table_schema)
        found = {column.name: value for column in own}
        found |= {field.name: value for type_ in self._typed(own) for field in _fields(type_)}
        for name, text in options.keep.items():  # what is in an envelope is no column that comes in
            words = {unquoted(word).lower() for word in words_in(text)}
            if options.envelope is not None and words & {"value", "attributes"}:
                rest = [c.name for c in inputs.only.columns if c.name.lower() in words]
                found[name] = [*value, *(("input", each) for each in rest)]
        return found

    @property
    def _tells_changes(self) -> bool:
        return isinstance(self.decoder, ChangesDecoder)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        options = self.options
        if self._tells_changes or self.decoder.many:
            for name in ("tombstones", "envelope"):
                if name in options.model_fields_set and getattr(options, name) is not None:
                    does = "tells of changes" if self._tells_changes else "holds many rows"
                    raise OptionError(f"is not for {options.format}, which {does}", option=name)
        own = self.decoder.columns(options.table_schema)
        check_names((column.name for column in own), "format")
        columns = [column for column in own if column.name not in self.decoder.types]
        if options.tombstones == "null":
            columns = [replace(column, nullable=True) for column in columns]
        names = {column.name.lower() for column in own}
        check_names(options.keep, "keep")
        for name, expression in options.keep.items():
            if name.lower() in names:
                raise OptionError(f"column {name!r} is already in the schema", option="keep")
            source = inputs.only.column(expression.strip())
            columns.append(Column(name, source.type if source else None))
        if isinstance(self.decoder, ChangesDecoder):
            return self._changelog(own, columns, inputs.only, self.decoder.options)
        if taken := sorted({f"_{name}" for name in self.decoder.types} & _RESERVED):
            raise OptionError(f"a type can't be called {taken[0][1:]!r}", option="format")
        for type_ in self._typed(own):
            taken_names = {column.name.lower() for column in columns}
            check_names((field.name for field in _fields(type_)), "format")
            for field in _fields(type_):
                if field.name.lower() in taken_names:
                    told = f"column {field.name!r} is one of {type_.name}"
                    raise OptionError(told, option="keep", hint="Keep it under another name.")
        return Events(columns)

    def _typed(self, own: Iterable[Column]) -> list[Column]:
        """Return the columns that are a type's."""
        return [column for column in own if column.name in self.decoder.types]

    def _changelog(
        self,
        declared: Sequence[Column],
        columns: list[Column],
        given: Shape,
        options: ChangesOptions,
    ) -> Changelog:
        keep = self.options.keep
        if not options.key:
            raise OptionError(f"{self.options.format} needs a `key`", option="key")
        for name in options.key:
            find_column(declared, name, "key")
        if options.sequence not in keep:
            if options.sequence != _POSITION:
                hint = f"Kept are: {', '.join([*keep, _POSITION])}."
                raise OptionError(f"{options.sequence!r} is not kept", option="sequence", hint=hint)
            position = given.column(_POSITION)
            if position is None or _POSITION in {column.name.lower() for column in declared}:
                hint = "Keep one under another name, and name that."
                raise OptionError(
                    "the messages have no `position` to keep", option="sequence", hint=hint
                )
            columns = [*columns, position]
        if not options.preimages:  # a deletion tells the key alone
            keys = {name.lower() for name in options.key}
            columns = [c if c.name.lower() in keys else replace(c, nullable=True) for c in columns]
        return Changelog(columns, options.key, options.sequence, preimages=options.preimages)

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        if not self.decoder.types:
            return {"rejected": REJECTED}
        beside = self.shape(inputs).columns
        typed = self._typed(self.decoder.columns(self.options.table_schema))
        found = {type_.name: Events([*_fields(type_), *beside]) for type_ in typed}
        return {**found, "rejected": REJECTED}

    def expressions(self) -> Mapping[str, str]:
        return {f"keep.{name}": text for name, text in self.options.keep.items()}

    def statements(self, inputs: Inputs[Shape]) -> list[Statement]:
        after = Statement.after
        if self.options.envelope is not None:
            beside = f"CAST(NULL AS MAP<STRING, STRING>) AS {ATTRIBUTES}"
            after = f") AS `value` FROM (SELECT *, {beside} FROM `input`)"  # noqa: S608
        return [
            Statement(f"keep.{name}", text, column=name, after=after)
            for name, text in self.options.keep.items()
        ]

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        frame = inputs.only
        told = "rejected" in ctx.wanted
        if isinstance(self.decoder, ChangesDecoder):
            return self._changes(frame, self.decoder.options.sequence, told=told)
        if self.decoder.many:
            return self._many(frame, told=told)
        whole = "value"
        if self.options.envelope is not None:
            whole = "__whole"
            headers = (
                "headers" if "headers" in frame.columns else "CAST(NULL AS MAP<STRING, BINARY>)"
            )
            opened = Opening(self.options.envelope).call(F.col("value"), F.expr(headers))
            frame = (
                frame.withColumn(whole, F.col("value"))
                .withColumn("__opened", opened)
                .withColumn("value", F.expr("__opened.value"))
                .withColumn(ATTRIBUTES, F.expr(f"__opened.{ATTRIBUTES}"))
            )
        reserved = [quoted(name) for name in frame.columns if name.startswith("_")]
        kept = [F.expr(text).alias(name) for name, text in self.options.keep.items()]
        decoding = self.decoding()
        columns = decoding.columns
        reason = self._reason(decoding)
        if self.options.tombstones == "null":
            gone = "__raw" if self.options.envelope is None else "__within"
            reason = f"IF({gone} IS NULL, NULL, {reason})"
        if self.options.envelope is not None:
            reason = f"coalesce(__unlike, {reason})"
        # Spark counts the rows of this frame before anything is filtered, so no filter moves below
        # the projection and has the value read once more.
        frame = frame.select(
            *map(F.expr, reserved),
            *kept,
            F.col(whole).alias("__raw"),
            *map(F.expr, _BESIDE if self.options.envelope else ()),
            decoding.call(F.col("value"), *self._headers(frame)).alias("__read"),
        ).selectExpr(
            *reserved,
            *(
                f"{value} AS {quoted(c.name)}"
                for c, value in zip(columns, self._values(decoding), strict=True)
            ),
            *map(quoted, self.options.keep),
            "__raw",
            f"{reason} AS __reason",
        )
        rejected = "IF(__reason IS NOT NULL, struct(__reason AS reason, __raw AS payload), NULL)"
        typed = self._typed(columns)
        beside = [quoted(c.name) for c in columns if c not in typed]
        beside += map(quoted, self.options.keep)
        cases = [f"WHEN {quoted(c.name)} IS NOT NULL THEN {literal(c.name)}" for c in typed]
        return frame.selectExpr(
            *reserved,
            *beside,
            f"CASE WHEN __reason IS NOT NULL THEN 'rejected' {' '.join(cases)} END AS _output",
            *([f"{rejected} AS _rejected"] if told else []),
            *(_typed_row(c, beside) for c in typed if c.name in ctx.wanted),
        )

    def decoding(self) -> Decoding:
        """Return how values are read."""
        options, decoder = self.options, self.decoder
        return Decoding(
            options.format,
            tuple(decoder.columns(options.table_schema)),
            decoder.reader(options.table_schema),
            changes=self._tells_changes,
            many=self.decoder.many,
            patterned=decoder.pattern is not None,
            codec=options.compression or "",
            limit=options.max_size,
        )

    def _headers(self, frame: DataFrame) -> list[SparkColumn]:
        """Return the headers that the reader is given; null where the messages have none."""
        from pyspark.sql import functions as F  # noqa: N812

        there = "headers" in frame.columns
        return [
            F.try_element_at(F.col("headers"), F.lit(name)) if there else F.lit(None).cast("binary")
            for name in self.decoder.headers
        ]

    def _values(self, decoding: Decoding) -> list[str]:
        """Return SQL for the columns, over what was read."""
        values = []
        for number, column in enumerate(decoding.columns):
            read, kind = f"__read.c{number}", column.type or ""
            if decoding.patterned and kind == "timestamp":
                pattern = literal(self.decoder.pattern or "")
                values.append(_near(f"try_to_timestamp({read}, {pattern})"))
            else:
                values.append(with_variants(read, kind))
        return values

    def _reason(self, decoding: Decoding) -> str:
        """Return SQL for why a row is refused, null if it is not."""
        cases = ["WHEN __read.reason IS NOT NULL THEN __read.reason"]
        values = self._values(decoding)
        for number, (column, value) in enumerate(zip(decoding.columns, values, strict=True)):
            kind = column.type or ""
            pattern = decoding.patterned and kind == "timestamp"
            missing = f"__read.c{number} IS NOT NULL AND {value} IS NULL"
            if pattern and not self.decoder.loose:
                words = literal(f"{column.name} is no TIMESTAMP")
                cases.append(f"WHEN {missing} THEN {words}")
            elif pattern and not column.nullable:
                cases.append(f"WHEN {value} IS NULL THEN {literal(f'{column.name} is null')}")
            cases += _unread(f"__read.c{number}", column, typed=column.name in self.decoder.types)
        return f"CASE {' '.join(cases)} END"

    def _many(self, frame: DataFrame, *, told: bool) -> DataFrame:
        """Return the rows of each message, and one for a message that is refused.

        A row's `_id` is made of its message's, and of its place in it.
        """
        from pyspark.sql import functions as F  # noqa: N812

        reserved = [quoted(name) for name in frame.columns if name.startswith("_")]
        decoding = self.decoding()
        place = "encode(CAST(__place AS STRING), 'UTF-8')"
        refused = "IF(__reason IS NULL, NULL, struct(__reason AS reason, __raw AS payload))"
        own = f"IF(__reason IS NULL, unhex(md5(concat(_id, {place}))), _id) AS _id"
        return (
            frame.select(
                *map(F.expr, reserved),
                *(F.expr(text).alias(name) for name, text in self.options.keep.items()),
                F.col("value").alias("__raw"),
                decoding.call(F.col("value"), *self._headers(frame)).alias("__read"),
            )
            .selectExpr(
                *reserved,
                *map(quoted, self.options.keep),
                "__read.reason AS __reason",
                "IF(__read.reason IS NULL, NULL, __raw) AS __raw",  # not once more for each row
                "posexplode(IF(__read.reason IS NULL, __read.rows, array(NULL))) AS (__place, __row)",
            )
            .selectExpr(
                *(own if name == "`_id`" else name for name in reserved),
                *(f"__row.c{n} AS {quoted(c.name)}" for n, c in enumerate(decoding.columns)),
                *map(quoted, self.options.keep),
                "IF(__reason IS NULL, NULL, 'rejected') AS _output",
                *([f"{refused} AS _rejected"] if told else []),
            )
        )

    def _changes(self, frame: DataFrame, sequence: str, *, told: bool) -> DataFrame:
        """Return the changes of each message: a row each, and one for a message that is refused."""
        from pyspark.sql import functions as F  # noqa: N812

        options = self.options
        keep = options.keep if sequence in options.keep else {**options.keep, _POSITION: _POSITION}
        reserved = [quoted(name) for name in frame.columns if name.startswith("_")]
        key = F.col("key") if "key" in frame.columns else F.lit(None).cast("binary")
        decoding = self.decoding()
        columns = decoding.columns
        unread = " ".join(
            f"WHEN exists(__read.changes, c -> {lost}) THEN {literal(f'{column.name} {NO_VARIANT}')}"
            for n, column in enumerate(columns)
            if (lost := unread_variants(f"c.c{n}", column.type or ""))
        )
        missing = f"WHEN {quoted(sequence)} IS NULL THEN {literal(f'{sequence} is null')}"
        good = "__reason IS NULL"
        return (
            frame.select(
                *map(F.expr, reserved),
                *(F.expr(text).alias(name) for name, text in keep.items()),
                F.col("value").alias("__raw"),
                decoding.call(F.col("value"), key, *self._headers(frame)).alias("__read"),
            )
            .selectExpr("*", f"CASE {missing} {unread} ELSE __read.reason END AS __reason")
            .selectExpr("*", f"explode(IF({good}, __read.changes, array(NULL))) AS __change")
            .selectExpr(
                *reserved,
                *(
                    f"{with_variants(f'__change.c{n}', c.type or '')} AS {quoted(c.name)}"
                    for n, c in enumerate(columns)
                ),
                *map(quoted, keep),
                f"__change.type AS {CHANGE_TYPE}",
                f"{quoted(sequence)} AS {COMMIT_VERSION}",
                f"__read.at AS {COMMIT_TIMESTAMP}",
                f"IF({good}, NULL, 'rejected') AS _output",
                *(
                    [f"IF({good}, NULL, struct(__reason AS reason, __raw AS payload)) AS _rejected"]
                    if told
                    else []
                ),
            )
        )


#: What a type's name, behind an underscore, would be taken for.
_RESERVED = {
    *CHANGELOG_COLUMNS, *ALONG, "_id", "_output", "_rejected", "_early", "_late", "_rows",
}  # fmt: skip


def _fields(column: Column) -> tuple[Column, ...]:
    return parts_of(column.type or "")


def _unread(read: str, column: Column, *, typed: bool) -> Iterator[str]:
    """Yield the cases in which a text is no VARIANT, of each field of a type by itself.

    Args:
        read: SQL for what was read of the column.
        typed: whether its fields are columns.
    """
    parts = (
        [(f"{read}.{quoted(f.name)}", f) for f in _fields(column)] if typed else [(read, column)]
    )
    for value, part in parts:
        if lost := unread_variants(value, part.type or ""):
            yield f"WHEN {lost} THEN {literal(f'{part.name} {NO_VARIANT}')}"


def _typed_row(column: Column, beside: Sequence[str]) -> str:
    """Return SQL for the rows of a type: its fields, and what stands beside them."""
    own = (f"{quoted(column.name)}.{quoted(field.name)}" for field in _fields(column))
    row = f"struct({', '.join([*own, *beside])})"
    return f"IF({quoted(column.name)} IS NULL, NULL, {row}) AS {quoted(f'_{column.name}')}"


#: What is known of an envelope, beside what is in it.
_BESIDE = ("__opened.reason AS __unlike", "value AS __within")


def _near(value: str) -> str:
    """Return SQL for a TIMESTAMP that is null beyond the years 1 to 9999."""
    limits = "TIMESTAMP '0001-01-01 00:00:00Z' AND TIMESTAMP '9999-12-31 23:59:59.999999Z'"
    return f"IF({value} BETWEEN {limits}, {value}, NULL)"
