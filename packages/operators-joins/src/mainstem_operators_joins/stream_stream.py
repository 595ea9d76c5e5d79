"""Operator `stream_stream_join`: rows of two streams that belong together, within a time of each other.

It is Spark's own interval join, whose state holds each row for as long as a partner can still come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from mainstem import (
    EVENTS,
    Branching,
    Deriving,
    Duration,
    Events,
    EventTime,
    Inputs,
    Operator,
    OperatorCapabilities,
    OperatorContext,
    OptionError,
    Options,
    Shape,
    StateFacts,
    Stateful,
    option,
    watermark_hint,
)
from mainstem.columns import Column, find_column
from pydantic import model_validator

from mainstem_operators_joins.columns import pairs, taken_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEFT, RIGHT = "left", "right"
#: By the join, whether it keeps the left and the right rows that find no partner.
KEEPS = {
    "inner": (False, False),
    "left": (True, False),
    "right": (False, True),
    "full": (True, True),
    "left_semi": (False, False),
}
#: The output of the left rows that find no partner and are not kept, and that of the right ones.
UNMATCHED = {LEFT: "unmatched", RIGHT: "unmatched_right"}
#: The output of the left rows that come too late, and that of the right ones.
LATE = {LEFT: "late", RIGHT: "late_right"}
Join = Literal["inner", "left", "right", "full", "left_semi"]


class Within(Options):
    """Which right rows belong to a left row, by their event times."""

    before: Duration = option(
        timedelta(0), description="How much earlier than the left row a right row may be."
    )
    after: Duration = option(
        timedelta(0), description="How much later than the left row a right row may be."
    )


class StreamStreamJoinOptions(Options):
    """Options of `stream_stream_join`."""

    on: list[str] | dict[str, str] = option(
        min_length=1,
        description="The columns that are equal in rows that belong together: a list, or by the left "
        "one's name the right one's.",
        example={"ad": "ad_id"},
    )
    within: Within = option(
        description="How far apart in event time the rows may be, ends included.",
        example={"before": "0 seconds", "after": "10 minutes"},
    )
    join: Join = option(
        "inner",
        description="Which rows come out: each pair; with `left`, `right`, `full` also the left, the "
        "right, all rows that found no partner, once none can come any more; with `left_semi` each left "
        "row that found one, once.",
    )
    take: list[str] | dict[str, str] | None = option(
        None,
        description="The right stream's columns in the result: a list, or by new name. When left out: "
        "all but those the streams are joined on.",
        example={"clicked": "at"},
    )
    time: Literal["left", "right"] | None = option(
        None,
        description="Whose event time the result goes on with: the left's when left out, the right's "
        "with `join: right`. With `full` it goes on with none, for either may be null.",
    )

    unmatched: bool = option(
        False,
        description="Whether rows that find no partner, and that the join does not keep, come out of "
        "`unmatched` (left ones) and `unmatched_right`.",
    )
    late: bool = option(
        False,
        description="Whether rows that are before the watermark of their batch come out of `late` (left "
        "ones) and `late_right`, and join nothing. Else Spark drops and counts late rows, and still "
        "joins those that are behind by what the watermark moved last.",
    )

    @model_validator(mode="after")
    def _fitting(self) -> StreamStreamJoinOptions:
        if self.join == "left_semi" and (self.take is not None or self.time == RIGHT):
            raise ValueError("`join: left_semi` gives the left stream's columns alone")
        if self.unmatched and self.join in ("full", "left_semi"):
            raise ValueError(f"`join: {self.join}` has no output `unmatched`")
        if self.late and self.join == "left_semi":
            raise ValueError("`join: left_semi` has no output `late`")
        lost = {"left": RIGHT, "right": LEFT}.get(self.join)
        if self.time and (self.time == lost or self.join == "full"):
            raise ValueError(f"with `join: {self.join}` the {self.time} event time may be null")
        return self


class StreamStreamJoin(Operator, Stateful, Branching, Deriving):
    """Joins the rows of two streams that have the same key and are close in event time.

    A row waits for partners until the watermark, which is the lower one of both streams', has passed
    the times that they can have; then it is let go, and comes out if the join keeps it, or is asked for
    by `unmatched`. A null in a key or in the event time matches nothing. Rows behind the watermark join
    nothing: they are dropped and counted, or come out of `late`.
    """

    options: StreamStreamJoinOptions
    capabilities = OperatorCapabilities(passes_ids=True)
    ports = {LEFT: EVENTS, RIGHT: EVENTS}

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        left, right = inputs[LEFT], inputs[RIGHT]
        self._check_keys(left, right)
        for side in (LEFT, RIGHT):
            _time_of(inputs[side], side)
        keeps_left, keeps_right = KEEPS[self.options.join]
        keys = {name.lower() for name in self._on()}
        columns = [
            c if c.name.lower() in keys else replace(c, nullable=c.nullable or keeps_right)
            for c in left.columns
        ]
        if self.options.join == "left_semi":
            return Events(columns, event_time=self._event_time(left, right))
        found = self._taken(left, right)
        columns += [
            Column(name, column.type, column.nullable or keeps_left)
            for name, column in found.items()
        ]
        return Events(columns, event_time=self._event_time(left, right))

    def _taken(self, left: Shape, right: Shape) -> Mapping[str, Column]:
        """Return the right stream's columns that come out, by the names that they get."""
        return taken_columns(
            self.options.take,
            right,
            "the right stream",
            beside=left.names,
            keys=self._on().values(),
        )

    def made_of(self, inputs: Inputs[Shape]) -> Mapping[str, Iterable[tuple[str, str]]]:
        taken = self._taken(inputs[LEFT], inputs[RIGHT])
        found = {name: [(LEFT, name)] for name in inputs[LEFT].names}
        return {**found, **{name: [(RIGHT, column.name)] for name, column in taken.items()}}

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        """Rows that found no partner and that the join does not keep, and late ones, as they came."""
        sides = {
            UNMATCHED[side]: side
            for side, keeps in zip((LEFT, RIGHT), KEEPS[self.options.join], strict=True)
            if self.options.unmatched and not keeps
        }
        sides |= {LATE[side]: side for side in self._told_late}
        return {name: Events(inputs[side].columns) for name, side in sides.items()}

    @property
    def _told_late(self) -> list[str]:
        """The sides whose late rows come out."""
        return [LEFT, RIGHT] if self.options.late else []

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        options = self.options
        return StateFacts(
            version=1,
            shaped_by={
                "on": self._on(),
                "within": options.within.model_dump(mode="json"),
                "join": options.join,
                "unmatched": options.unmatched,
                **({"late": True} if options.late else {}),
            },
            # A row is let go when the watermark is beyond the last time of a partner.
            holds=max(options.within.before, options.within.after) + timedelta(milliseconds=1),
            by_time=True,
            tells_late=options.late,
            waits=any(KEEPS[options.join]) or options.unmatched,
        )

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from mainstem_operators_joins.stream_stream_frames import Sides, joined, paired

        options, on = self.options, self._on()
        keeps_left, keeps_right = KEEPS[options.join]
        semi = options.join == "left_semi"
        late = self._told_late
        wanted = (
            keeps_left or options.unmatched or LEFT in late,
            keeps_right or options.unmatched or RIGHT in late,
        )
        left, right = ctx.shapes[LEFT], ctx.shapes[RIGHT]
        times = _time_of(left, LEFT), _time_of(right, RIGHT)
        sides = Sides(inputs[LEFT], inputs[RIGHT], *times, on)
        behind = dict.fromkeys(late, ctx.behind)
        frame = joined(sides, options.within, None if semi else wanted, behind)
        taken = {} if semi else self._taken(left, right)
        return paired(
            frame,
            sides,
            node=ctx.node,
            keeps=(keeps_left, keeps_right),
            taken={name: column.name for name, column in taken.items()},
            time=self._time(),
            semi=semi,
            unmatched=options.unmatched,
            late=late,
        )

    # -- options ------------------------------------------------------------------------------

    def _on(self) -> Mapping[str, str]:
        """Return the left key columns, each with the right one that it equals."""
        return pairs(self.options.on)

    def _time(self) -> str | None:
        """Return the side whose event time the result goes on with, if any."""
        if self.options.join == "full":
            return None
        return self.options.time or (RIGHT if self.options.join == "right" else LEFT)

    def _check_keys(self, left: Shape, right: Shape) -> None:
        for name, other in self._on().items():
            pair = []
            for side, shape, key in ((LEFT, left, name), (RIGHT, right, other)):
                pair.append(find_column(shape.columns, key, "on", whose=f"the {side} stream"))
            one, two = pair
            if one.type and two.type and one.type != two.type:
                raise OptionError(
                    f"{one.ddl} and {two.ddl} are of different types",
                    option="on",
                    hint="Cast one of them in a `select` above.",
                )

    def _event_time(self, left: Shape, right: Shape) -> EventTime | None:
        """Return the event time of the result; None if it has none, or the column is not in it.

        A row that has waited comes out when the watermark has passed it, and is not late then: on its
        side with the last row of the other that belongs to it, or when none can come any more.
        """
        side = self._time()
        time = (right if side == RIGHT else left).event_time
        if side is None or time is None:
            return None
        column: str | None = time.column
        if side == RIGHT:
            taken = {} if self.options.join == "left_semi" else self._taken(left, right)
            names = {old.name.lower(): new for new, old in taken.items()}
            column = names.get(time.column.lower())
        if column is None:
            return None
        within, sides = self.options.within, (left.event_time, right.event_time)
        waits = within.before if side == RIGHT else within.after
        behind = max(given.behind for given in sides if given is not None) + waits
        return replace(time, column=column, punctual=True, behind=behind)


def _time_of(given: Shape, side: str) -> str:
    """Return a side's column of event time.

    Raises:
        OptionError: it has none.
    """
    event_time = given.event_time
    if event_time is None:
        raise OptionError(
            f"the {side} stream has no event time, so its rows would wait for ever",
            hint=watermark_hint(given, where="a node above it"),
        )
    return event_time.column
