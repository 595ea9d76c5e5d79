"""Operator `upcast`: events of an older form are brought up to the newest, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mainstem import (
    EVENTS,
    REJECTED,
    Branching,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Shape,
    option,
)
from mainstem.columns import Column, find_column, quoted
from mainstem.functions import FunctionName, FunctionOptions

from mainstem_operators_eventsourcing.base import whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class UpcastOptions(FunctionOptions):
    """Options of `upcast`."""

    call: FunctionName = option(
        description="A class, as `module:Class`, with `steps`: a dictionary that has, by a type of "
        "events and a version of its form, the function that makes of an event's payload, a dictionary, "
        "that of the next version. They depend on nothing else.",
        example="shop:Upcasts",
    )
    type: str = option("type", min_length=1, description="The column with an event's type.")
    version: str = option(
        "version",
        min_length=1,
        description="The column with the version of its form, a whole number; null is 1.",
    )
    payload: str = option(
        "payload", min_length=1, description="The column with what it says: an object of JSON."
    )


class Upcast(Operator, Branching):
    """Calls the steps that lead from an event's version to the newest one that there is.

    What comes out has the payload and the version of the newest form; events of types without steps are
    as they were. A payload that is no object, and one for which a step fails, is refused.
    """

    options: UpcastOptions
    ports = {"input": EVENTS}
    capabilities = OperatorCapabilities(row_wise=True, keeps_rows=True, keeps_names=False)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given = inputs.only
        kind, version, payload = self._columns(given)
        if kind.type not in (None, "string"):
            raise OptionError(f"{kind.name} is no text", option="type")
        whole_number(version, "version")
        if payload.type not in (None, "string", "binary"):
            raise OptionError(f"{payload.name} is neither text nor bytes", option="payload")
        columns = [
            replace(c, type=c.type and "bigint", nullable=False) if c.name == version.name else c
            for c in given.columns
        ]
        return given.with_columns(columns)

    def _columns(self, given: Shape) -> tuple[Column, Column, Column]:
        o = self.options
        named = (("type", o.type), ("version", o.version), ("payload", o.payload))
        kind, version, payload = (find_column(given.columns, name, at) for at, name in named)
        return kind, version, payload

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED}

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from mainstem.arrays import arrow_call
        from mainstem.attempts import refusal, row_as_json
        from pyspark.sql import functions as F  # noqa: N812

        from mainstem_operators_eventsourcing.app import load_app
        from mainstem_operators_eventsourcing.upcasting import Upcasting, steps_of

        frame = inputs.only
        kind, version, payload = (c.name for c in self._columns(ctx.shapes.only))
        app = load_app(self.options.call, (), self.options)
        call = Upcasting(app, steps_of(app))
        held = dict(frame.dtypes)[payload]
        made = arrow_call(
            call,
            "STRUCT<version: BIGINT, payload: BINARY, reason: STRING>",
            # Python can't be handed a text that is no UTF-8; no type is one, and a payload goes as bytes.
            F.try_validate_utf8(quoted(kind)),
            F.col(quoted(version)).cast("bigint"),
            F.col(quoted(payload)).cast("binary"),
        )
        new = {version: "__up.version", payload: f"CAST(__up.payload AS {held})"}
        columns = [
            f"{new[name]} AS {quoted(name)}" if name in new else quoted(name)
            for name in frame.columns
        ]
        shown = row_as_json([name for name in frame.columns if not name.startswith("_")])
        told = refusal("__up.reason", shown, wanted="rejected" in ctx.wanted)
        return frame.withColumn("__up", made).selectExpr(*columns, *told)
