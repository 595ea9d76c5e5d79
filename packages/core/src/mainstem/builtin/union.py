"""Operator `union`: several streams of one shape become one stream with a name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mainstem import Inputs, Operator, OperatorCapabilities, OperatorContext, Options, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class UnionOptions(Options):
    """Options of `union`: none."""


class Union(Operator):
    """Gives a list of same-shaped streams (`from: [a, b]`) one name."""

    options: UnionOptions
    capabilities = OperatorCapabilities(row_wise=True, keeps_rows=True)

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        return replace(inputs.only, identity=())

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        return inputs.only
