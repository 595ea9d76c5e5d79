"""Spark's interval join of two streams, and the columns of what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from mainstem.columns import EVENT_TIME
from pyspark.sql import functions as F  # noqa: N812

from mainstem_operators_joins.stream_stream import LATE, LEFT, RIGHT, UNMATCHED, Within

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ID = "_id"
#: True on every row of a side, so null where a row found no partner on it. No user's column begins so.
_HERE = "_here"
#: On rows of a side whose late rows come out: whether it is late, and its time, which is else null then.
_BEHIND, _AT = "_behind", "_at"
_JOINS = {
    (False, False): "inner",
    (True, False): "left_outer",
    (False, True): "right_outer",
    (True, True): "full_outer",
}


@dataclass(frozen=True)
class Sides:
    """The two streams, with their event times, and the right key column by the left one."""

    left: DataFrame
    right: DataFrame
    left_time: str
    right_time: str
    on: Mapping[str, str]

    def columns(self, side: str) -> list[str]:
        """Return the columns of a side that take part: all but reserved ones, and `_id`."""
        names = (self.left if side == LEFT else self.right).columns
        return [name for name in names if name == _ID or not name.startswith("_")]


def joined(
    sides: Sides,
    within: Within,
    wanted: tuple[bool, bool] | None,
    behind: Mapping[str, Callable[[Column], Column]],
) -> DataFrame:
    """Return the rows that belong together, each column under its side's name (see `of`).

    Args:
        wanted: whether the left and the right rows without a partner come out too; None to get each left
            row that has a partner, once.
        behind: by side whose late rows come out (without a partner), what tells whether a time is late.
    """
    left, right = (
        _named(frame, sides, side, behind.get(side))
        for side, frame in ((LEFT, sides.left), (RIGHT, sides.right))
    )
    left_time, right_time = of(LEFT, sides.left_time), of(RIGHT, sides.right_time)
    conditions = [of(LEFT, name) == of(RIGHT, other) for name, other in sides.on.items()]
    conditions += [
        right_time >= left_time - _interval(within.before),
        right_time <= left_time + _interval(within.after),
    ]
    # Spark's full outer join of streams takes two null keys for equal (seen with 4.3.0). A row that fails
    # a condition on its own side alone is not kept, and comes out at once as one without a partner.
    for side, names in ((LEFT, sides.on.keys()), (RIGHT, sides.on.values())):
        conditions += [of(side, name).isNotNull() for name in names]
    conditions += [left_time.isNotNull(), right_time.isNotNull()]
    condition = conditions[0]
    for other in conditions[1:]:
        condition &= other
    return left.join(right, condition, "left_semi" if wanted is None else _JOINS[wanted])


def paired(
    frame: DataFrame,
    sides: Sides,
    *,
    node: str,
    keeps: tuple[bool, bool],
    taken: Mapping[str, str],
    time: str | None,
    semi: bool,
    unmatched: bool,
    late: Sequence[str],
) -> DataFrame:
    """Return what `joined` gave in the columns of the result, and those of the named outputs.

    Args:
        keeps: whether the left and the right rows without a partner are part of the result.
        taken: the right columns of the result, by their names in it.
        time: the side whose event time goes on; the other one becomes a plain column, for Spark
            takes no row with two.
        semi: whether `joined` gave left rows alone.
        unmatched: whether rows without a partner that are no part of the result go to outputs.
        late: the sides whose late rows go to outputs.
    """
    keys = {name.lower(): other for name, other in sides.on.items()}

    def shown(side: str, name: str) -> Column:
        timed = sides.left_time if side == LEFT else sides.right_time
        plain = name.lower() == timed.lower() and time != side
        return _untimed(of(side, name)) if plain else of(side, name)

    columns = []
    for name in sides.columns(LEFT):
        value = shown(LEFT, name)
        if keeps[1] and name.lower() in keys:
            value = F.coalesce(value, of(RIGHT, keys[name.lower()]))
        if name != _ID:
            columns.append(value.alias(name))
    columns += [shown(RIGHT, source).alias(name) for name, source in taken.items() if not semi]
    identified = {side: _ID in sides.columns(side) for side in (LEFT, RIGHT)}
    if semi:
        columns += [of(LEFT, _ID).alias(_ID)] if identified[LEFT] else []
    elif all(identified.values()):
        columns.append(_hashed(node))
    lone = [side for side, keep in zip((LEFT, RIGHT), keeps, strict=True) if not keep]
    for side in [] if unmatched else [side for side in lone if side in late]:
        # It has come out for the sake of late rows alone.
        frame = frame.where(
            of(_other(side), _HERE).isNotNull() | F.coalesce(of(side, _BEHIND), F.lit(False))
        )
    branches = [
        (UNMATCHED[side], side, of(_other(side), _HERE).isNull()) for side in lone if unmatched
    ]
    branches += [(LATE[side], side, of(side, _BEHIND)) for side in late]
    if branches:
        columns += _branches(sides, branches, late)
    return frame.select(*columns)


def _other(side: str) -> str:
    return RIGHT if side == LEFT else LEFT


def _branches(
    sides: Sides, branches: Sequence[tuple[str, str, Column]], late: Sequence[str]
) -> list[Column]:
    """Return `_output`, and a struct for each output.

    Args:
        branches: the outputs, each with its side and which rows go there; the last that holds counts.
        late: the sides whose rows have their times beside.
    """
    output = F.lit(None).cast("string")
    structs = []
    for name, side, holds in branches:
        output = F.when(holds, name).otherwise(output)
        timed = (sides.left_time if side == LEFT else sides.right_time).lower()
        at = of(side, _AT) if side in late else _untimed(of(side, timed))
        row = [(at if n.lower() == timed else of(side, n)).alias(n) for n in sides.columns(side)]
        structs.append(F.struct(*row).alias(f"_{name}"))
    return [output.alias("_output"), *structs]


def of(side: str, name: str) -> Column:
    """Return a column of a side in what `joined` gives."""
    return F.col(f"`_{side}_{name.replace('`', '``')}`")


def _named(
    frame: DataFrame, sides: Sides, side: str, behind: Callable[[Column], Column] | None
) -> DataFrame:
    """Return the columns that take part under names that the other side does not have.

    An alias keeps the watermark of a column. With `behind` the time of a late row is null, so that Spark
    does not drop it; it meets no partner then, and comes out at once.
    """
    columns = {n: F.col(f"`{n.replace('`', '``')}`") for n in sides.columns(side)}
    here = F.lit(True).alias(f"_{side}_{_HERE}")
    if behind is None:
        return frame.select(*(c.alias(f"_{side}_{n}") for n, c in columns.items()), here)
    timed = sides.left_time if side == LEFT else sides.right_time
    (timed,) = (name for name in columns if name.lower() == timed.lower())
    late = f"_{side}_{_BEHIND}"
    frame = frame.select("*", behind(columns[timed]).alias(late))
    given = [c.alias(f"_{side}_{n}") for n, c in columns.items() if n != timed]
    at = _untimed(columns[timed]).alias(f"_{side}_{_AT}")
    time = F.when(~F.col(late), columns[timed])
    marked = time.alias(f"_{side}_{timed}", metadata={EVENT_TIME: 0})
    return frame.select(*given, marked, at, late, here)


def _untimed(column: Column) -> Column:
    """Return a time without the mark that makes it an event time."""
    return F.timestamp_micros(F.unix_micros(column))


def _hashed(node: str) -> Column:
    """Return 16 bytes made of the ids of the rows of both sides, or of the one there is."""
    parts = [F.coalesce(F.hex(of(side, _ID)), F.lit("-")) for side in (LEFT, RIGHT)]
    return F.unhex(F.md5(F.concat_ws(":", F.lit(node), *parts).cast("binary"))).alias(_ID)


def _interval(length: timedelta) -> Column:
    micros = round(length.total_seconds() * 1_000_000)
    return F.expr(f"INTERVAL '{micros // 1_000_000}.{micros % 1_000_000:06d}' SECOND")
