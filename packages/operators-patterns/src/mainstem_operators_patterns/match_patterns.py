"""Operator `match_patterns`: patterns of events that come and go as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from mainstem import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    EVENTS,
    Accepts,
    Changelog,
    Inputs,
    LoadedFirst,
    OperatorCapabilities,
    OptionError,
    Shape,
    StateFacts,
    option,
)
from mainstem.columns import Column, find_column, quoted
from mainstem_keyed_state.operator import lacking

from mainstem_operators_patterns.base import Matching, MatchingOptions
from mainstem_operators_patterns.expressions import Expression

if TYPE_CHECKING:
    import polars as pl
    from mainstem import OperatorContext
    from mainstem_keyed_state import Logic
    from mainstem_keyed_state.frames import Port
    from pyspark.sql import DataFrame

_PATTERNS = "patterns"


class MatchPatternsOptions(MatchingOptions):
    """Options of `match_patterns`."""

    text: str = option(
        "pattern",
        min_length=1,
        description="The column of the port `patterns` with a pattern, as `match` has it, of variables "
        "in `define`.",
    )


class MatchPatterns(Matching, LoadedFirst):
    """Finds patterns that a table has, among the rows of each key, in the order of their time.

    A pattern that is new begins with the rows whose turn comes next, one that is gone ends, and the
    others keep what has begun to match. Each match has its pattern's key. A text that can't be read
    goes to `rejected`.
    """

    options: MatchPatternsOptions
    ports = {"input": EVENTS, _PATTERNS: Accepts((Changelog,))}
    #: Which rows a pattern sees depends on when it has come.
    capabilities = OperatorCapabilities(batch_invariant=False, keeps_names=False)

    def loaded_first(self) -> frozenset[str]:
        """Return the port whose rows are there before the first row is matched."""
        return frozenset({_PATTERNS})

    @property
    def names(self) -> Sequence[str]:
        return tuple(sorted(self.options.define))

    @cached_property
    def definitions(self) -> dict[str, Expression]:
        if not self.names:
            raise OptionError("there is no variable to make patterns of", option="define")
        if self.skips_to and self.skips_to not in self.names:
            raise OptionError(f"{self.skips_to!r} is not in `define`", option="skip")
        return self._defined()

    def _lasts(self) -> timedelta:
        return 2 * self._limit()

    def _limit(self) -> timedelta:
        within = self.options.within
        if within is None:
            hint = "What has begun is kept until then, whatever patterns come."
            raise OptionError("how long may a match last?", option="within", hint=hint)
        return within

    # -- what the core asks -------------------------------------------------------------------

    def _told_by(self, inputs: Inputs[Shape]) -> list[Column]:
        return [*super()._told_by(inputs), *self._named(inputs)]

    def _named(self, inputs: Inputs[Shape]) -> list[Column]:
        """Return the columns that tell a pattern from others."""
        patterns = inputs[_PATTERNS]
        assert isinstance(patterns, Changelog)  # noqa: S101
        if patterns.sequence is None:
            raise OptionError(
                "the changes of the patterns have no sequence: they come batch by batch",
                hint="Read them from a table or a topic with a sequence of its own.",
            )
        return [find_column(patterns.columns, name, "patterns") for name in patterns.key]

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        self._limit()
        find_column(inputs[_PATTERNS].columns, self.options.text, "text")
        return super().shape(inputs)

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        found = super().state(inputs)
        patterns = [column.ddl for column in self._named(inputs)]
        grows = "patterns are kept, of those that are gone the key."
        shaped_by = {**found.shaped_by, "patterns": patterns}
        return replace(found, shaped_by=shaped_by, grows=grows)

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        keys = [column.name for column in self._named(inputs)]
        return {**super().refuses(inputs), _PATTERNS: lacking([*keys, COMMIT_VERSION])}

    # -- frames ---------------------------------------------------------------------------------

    def ports_of(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Mapping[str, Port]:
        from mainstem_keyed_state.changes import DELETED, SEQUENCE
        from mainstem_keyed_state.frames import Port

        from mainstem_operators_patterns.patterns_logic import TEXT

        shapes, rows = ctx.shapes, self.rows(inputs, ctx)["input"]
        patterns = shapes[_PATTERNS]
        keys = [quoted(column.name) for column in self._named(shapes)]
        text = quoted(find_column(patterns.columns, self.options.text, "text").name)
        changes = (
            inputs[_PATTERNS]
            .where(f"{CHANGE_TYPE} <> 'update_preimage'")
            .selectExpr(
                *keys,
                f"CAST({text} AS STRING) AS {TEXT}",
                COMMIT_VERSION,
                f"{COMMIT_VERSION} AS {SEQUENCE}",
                f"{CHANGE_TYPE} = 'delete' AS {DELETED}",
            )
        )
        return {
            "input": Port(rows, self.keys(shapes)["input"]),
            _PATTERNS: Port(changes, keys),
        }

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_patterns.patterns_logic import PatternsLogic

        named = {column.name: rows[_PATTERNS][column.name] for column in self._named(inputs)}
        told = replace(self._told(inputs), named=named)
        return PatternsLogic(rows["input"], rows[_PATTERNS], self.vocabulary(), self.needed(), told)
