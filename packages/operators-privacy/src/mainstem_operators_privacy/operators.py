"""Operators `encrypt` and `decrypt`: values that only who has their subject's key can read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mainstem import (
    REJECTED,
    Branching,
    Changelog,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Shape,
)
from mainstem.attempts import refusal, row_as_json
from mainstem.columns import Column, literal, quoted

from mainstem_operators_privacy.options import DecryptOptions, EncryptOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mainstem_operators_privacy.calls import Decrypting, Encrypting

_MADE, _REASON = "__made", "__reason"


class Private(Operator, Branching):
    """What both do: some columns of each row become others, by the key of the row's subject."""

    options: EncryptOptions | DecryptOptions
    capabilities = OperatorCapabilities(row_wise=True, keeps_rows=True)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = inputs.only
        subject = self.options.subject_of(given)
        private = {column.name: column for column in self.options.private(given)}
        fixed = {subject: "says whose a row is"}
        if isinstance(given, Changelog):
            fixed |= dict.fromkeys(given.key, "is the key's")
            if given.sequence is not None:
                fixed.setdefault(given.sequence, "has the sequence")
        if given.event_time is not None:
            fixed.setdefault(given.event_time.column, "has the event time")
        for name, why in fixed.items():
            if name.lower() in (column.lower() for column in private):
                raise OptionError(f"{name} {why}, and must stay as it is", option="columns")
        return given.with_columns(
            [
                Column(c.name, self.becomes(private[c.name])) if c.name in private else c
                for c in given.columns
            ]
        )

    @abstractmethod
    def becomes(self, column: Column) -> str:
        """Return the type that a column gets."""

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED}

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from mainstem.arrays import arrow_call
        from pyspark.sql import functions as F  # noqa: N812

        frame, given = inputs.only, ctx.shapes.only
        private = self.options.private(given)
        fields = ", ".join(f"c{n}: BINARY" for n in range(len(private)))
        made = arrow_call(
            self.call([c.name for c in private], [c.type or "" for c in private]),
            f"STRUCT<reason: STRING, values: STRUCT<{fields}>>",
            F.col(quoted(self.options.subject_of(given))).cast("string").cast("binary"),
            *(F.expr(self.taken(quoted(column.name))) for column in private),
            once=True,
        )
        values = {c.name: self.given_back(f"{_MADE}.values.c{n}", c) for n, c in enumerate(private)}
        reasons = [f"{_MADE}.reason", *self.misfits(private)]
        shown = row_as_json([n for n in frame.columns if n not in values or not self.hides])
        told = refusal(_REASON, shown, wanted="rejected" in ctx.wanted)
        columns = [
            f"{values[name]} AS {quoted(name)}" if name in values else quoted(name)
            for name in frame.columns
        ]
        found = frame.withColumn(_MADE, made)
        found = found.withColumn(_REASON, F.expr(f"coalesce({', '.join(reasons)})"))
        return found.selectExpr(*columns, *told)

    #: Whether the columns are left out of what is told of a row that is refused.
    hides = True

    @abstractmethod
    def call(self, columns: Sequence[str], kinds: Sequence[str]) -> Encrypting | Decrypting:
        """Return what Spark sends to its workers."""

    @abstractmethod
    def taken(self, column: str) -> str:
        """Return SQL for a value as the call takes it."""

    @abstractmethod
    def given_back(self, made: str, column: Column) -> str:
        """Return SQL for a column's value, of what the call returned."""

    def misfits(self, private: Sequence[Column]) -> list[str]:
        """Return SQL for why what the call returned is no value of its column; null where it is."""
        return []


class Encrypt(Private):
    """Encrypts columns with a key of the row's subject, which is made when the subject is first seen.

    The columns become text. Those of a subject that was forgotten become null. A row with values and
    without a subject is refused; what is told of it has not these columns.
    """

    options: EncryptOptions

    def becomes(self, column: Column) -> str:
        return "string"

    def call(self, columns: Sequence[str], kinds: Sequence[str]) -> Encrypting:
        from mainstem_operators_privacy.calls import Encrypting

        return Encrypting(self.options.keys, columns, kinds)

    def taken(self, column: str) -> str:
        return f"CAST(CAST({column} AS STRING) AS BINARY)"

    def given_back(self, made: str, column: Column) -> str:
        return f"CAST({made} AS STRING)"


class Decrypt(Private):
    """Decrypts columns with the key of the row's subject; those of one that was forgotten are null.

    What was encrypted with another key or as another type, or has changed, is refused.
    """

    options: DecryptOptions
    hides = False  # they are what was encrypted

    def becomes(self, column: Column) -> str:
        return column.type or "string"

    def call(self, columns: Sequence[str], kinds: Sequence[str]) -> Decrypting:
        from mainstem_operators_privacy.calls import Decrypting

        return Decrypting(self.options.keys, columns, kinds)

    def taken(self, column: str) -> str:
        return f"CAST(CAST({column} AS STRING) AS BINARY)"

    def given_back(self, made: str, column: Column) -> str:
        if column.type == "binary":
            return made
        return f"try_cast(CAST({made} AS STRING) AS {column.type})"

    def misfits(self, private: Sequence[Column]) -> list[str]:
        found = []
        for number, column in enumerate(private):
            made = f"{_MADE}.values.c{number}"
            words = literal(
                f"{column.name}: what was encrypted is no {(column.type or '').upper()}"
            )
            if column.type not in ("string", "binary"):
                wrong = f"{made} IS NOT NULL AND {self.given_back(made, column)} IS NULL"
                found.append(f"IF({wrong}, {words}, NULL)")
        return found
