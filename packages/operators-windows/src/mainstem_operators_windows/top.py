"""Operator `top`: the first rows of each key, by an order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from mainstem import (
    Changelog,
    Events,
    Inputs,
    OperatorCapabilities,
    OptionError,
    Options,
    Shape,
    StateFacts,
    option,
)
from mainstem.columns import Column, check_names, find_column
from mainstem_keyed_state import event_time
from mainstem_keyed_state.by_key import ByKey, needed_time, waited

if TYPE_CHECKING:
    import polars as pl
    from mainstem_keyed_state import Logic

_TERM = re.compile(
    r"(?:`(?P<quoted>[^`]+)`|(?P<plain>\S+))(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?",
    re.IGNORECASE,
)
#: Types without an order, or whose values have another form in the state. Nor are texts of a collation.
_UNORDERED = ("map", "array", "struct", "variant", "interval")


@dataclass(frozen=True)
class Term:
    """A column of an order, and which way."""

    column: str
    descending: bool
    nulls_last: bool


class TopOptions(Options):
    """Options of `top`."""

    by: list[str] = option(
        list, description="The key columns; when left out, all rows are ranked together."
    )
    order: list[str] = option(
        min_length=1,
        description="What rows are ranked by: columns, each with ASC or DESC and NULLS FIRST or NULLS "
        "LAST, as in SQL. Rows that are equal in all of them are ranked by their `_id`.",
        example=["cents DESC", "at"],
    )
    n: int = option(ge=1, le=10_000, description="How many rows of each key.", example=10)
    rank: str = option(
        "rank", min_length=1, description="The name of the column with the rank, from 1."
    )
    ties: bool = option(
        False,
        description="Whether rows that are equal in `order` have one rank, and all come whose rank is at "
        "most `n`, as by RANK() in SQL; with `emit: final`.",
    )
    emit: Literal["final", "changes"] = option(
        "changes",
        description="`changes`: a changelog keyed by keys and rank, with what each batch changed. "
        "`final`: the rows of a key once, when the watermark has passed its time: the column with the "
        "event time must be among `by`, such as the end of a window.",
    )


class Top(ByKey):
    """Ranks the rows of each key, and gives the first ones: as they change, or when they are final."""

    options: TopOptions

    @property
    def capabilities(self) -> OperatorCapabilities:  # type: ignore[override]
        """Changes come batch by batch, so how the input was cut shows in them."""
        return OperatorCapabilities(
            batch_invariant=self.options.emit == "final", passes_ids=self.options.ties
        )

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        given, options = inputs.only, self.options
        keys = self.key_columns(given)
        self._terms(given)
        check_names([options.rank], "rank")
        if given.column(options.rank) is not None:
            raise OptionError(f"the name {options.rank!r} is taken", option="rank")
        rank = Column(options.rank, "int", nullable=False)
        columns = (*given.columns, rank)
        if options.emit == "changes":
            if options.ties:
                raise OptionError(
                    "rows of one rank have no key by which they could change",
                    option="ties",
                    hint="Write `emit: final`.",
                )
            return Changelog(columns, key=[*keys, options.rank], preimages=True)
        time = needed_time(given)
        if time.column.lower() not in {key.lower() for key in keys}:
            raise OptionError(
                f"final ranks need the event time {time.column!r} among the keys",
                option="by",
                hint="Rank what a window gives by the window's end, or write `emit: changes`.",
            )
        if options.ties:
            return replace(given.with_columns(columns), event_time=waited(time))
        return Events(columns, identity=[*keys, options.rank], event_time=waited(time))

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        options, found = self.options, super().state(inputs)
        shaped_by = {
            **found.shaped_by,
            "order": options.order,
            "n": options.n,
            "emit": options.emit,
            **({"ties": True} if options.ties else {}),
            "columns": list(inputs.only.names),
        }
        grows = (
            "" if self._passes(inputs.only) else "the first rows of every key are kept for ever."
        )
        return replace(found, shaped_by=shaped_by, grows=grows, waits=options.emit == "final")

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        return super().refuses(inputs) if self._passes(inputs.only) else {}

    def in_time(self, inputs: Inputs[Shape]) -> str | None:
        return "input" if self._passes(inputs.only) else None

    def holds(self, inputs: Inputs[Shape]) -> timedelta:
        return timedelta(microseconds=1 if self.options.emit == "final" else 0)

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_windows.top_logic import TopLogic

        given, options = inputs.only, self.options
        return TopLogic(
            rows["input"],
            terms=self._terms(given),
            n=options.n,
            rank=options.rank,
            time=event_time(given) if self._passes(given) else None,
            final=options.emit == "final",
            ties=options.ties,
        )

    # -- what the options mean for the input --------------------------------------------------

    def _passes(self, given: Shape) -> bool:
        """Whether the watermark passes each key: its time is a part of it."""
        time = event_time(given)
        return time is not None and time in self.key_columns(given)

    def _terms(self, given: Shape) -> list[Term]:
        found = []
        for text in self.options.order:
            term = _TERM.fullmatch(text.strip())
            if term is None:
                raise OptionError(
                    f"{text!r} is no column with ASC or DESC, NULLS FIRST or NULLS LAST",
                    option="order",
                    hint="Compute what rows are ranked by with `select` before.",
                )
            column = find_column(given.columns, term["quoted"] or term["plain"], "order")
            kind = column.type or ""
            if kind.startswith(_UNORDERED) or "collate" in kind:
                raise OptionError(f"{column.ddl} can't be ranked by", option="order")
            descending = (term["way"] or "").lower() == "desc"
            # As in Spark's SQL null is the least.
            nulls = (term["nulls"] or ("last" if descending else "first")).lower()
            found.append(Term(column.name, descending, nulls == "last"))
        return found
