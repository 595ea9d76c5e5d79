"""When the totals of a window come out: as options say it."""

from __future__ import annotations

from typing import Literal

from mainstem import Options, PositiveDuration, option
from pydantic import model_validator

#: The columns that tell what a result is: `early`, `on_time` or `late`, and its number, from 1.
PANE, NUMBER = "pane", "pane_number"
EARLY, ON_TIME, LATE = "early", "on_time", "late"


class Early(Options):
    """When results come of a window that is not over: by time, or by how much has come."""

    every: PositiveDuration | None = option(
        None,
        description="Each time the watermark passes a multiple of this length, of windows that have got "
        "something since.",
        example="30 seconds",
    )
    count: int | None = option(
        None,
        ge=1,
        description="With the batch that brings the rows of a window to so many since its last result.",
        example=1000,
    )

    @model_validator(mode="after")
    def _one(self) -> Early:
        if (self.every is None) == (self.count is None):
            raise ValueError("expected one of `every` and `count`")
        return self


class Panes(Options):
    """Several results of a window: before it is over, when the watermark has passed it, and after."""

    early: Early | None = option(None, description="When results come before; none when left out.")
    late: Literal["each", "none"] = option(
        "none",
        description="`each`: a result with each batch that brings rows of a window that the watermark "
        "has passed, as long as `lateness` keeps it open.",
    )
    results: Literal["changes", "increments"] = option(
        "changes",
        description="`changes`: a result replaces those before; `increments`: it has what has come since "
        "the last one, and all of them add up.",
    )
