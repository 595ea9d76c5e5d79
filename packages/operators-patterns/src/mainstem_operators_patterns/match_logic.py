"""What `match` does with the rows of a batch and what it remembers, as frames."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table
from mainstem_keyed_state.times import TIME, passed
from mainstem_keyed_state.waiting import in_turn, waiting_table

from mainstem_operators_patterns.expressions import Reference
from mainstem_operators_patterns.matching import (
    MATCHED,
    WAITING,
    Course,
    Found,
    Matcher,
    Row,
    Rules,
    path_of,
    rows_of,
    totals_of,
)

#: Columns of rows beside their own: time, what tells rows of one time apart, definitions, values.
AT, TIE, HOLDS = "__at", "__tie", "__holds"
TIMEOUTS = "timeouts"
#: What comes out of each match beside its measures.
ID, BEGIN, FINISH = "match_id", "match_start", "match_end"
#: Of each row of a match, where rows come out; of a course that took too long, and how far it came.
NUMBER, CLASSIFIER, ROWS, REACHED = "match_row", "classifier", "rows", "reached"

_WAITING, _KEPT, _COURSES = "waiting", "rows", "courses"
_NTH, _DUE = "__n", "__due"
_STATES = {MATCHED: "matched", WAITING: "waiting"}


def value(number: int) -> str:
    """Return the column of a value that definitions or measures need."""
    return f"__v{number}"


def measure(number: int) -> str:
    """Return the column of what a measure asks."""
    return f"__m{number}"


@dataclass(frozen=True)
class Told:
    """What comes out.

    Attributes:
        by: the key's columns.
        rows: the columns of each row, where all rows of a match come out; none where one row does.
        asked: what measures ask, with the column of its value; empty where rows are counted.
        timeouts: whether courses that took too long do.
    """

    by: Sequence[str]
    rows: Sequence[str]
    asked: Sequence[tuple[Reference, str]]
    timeouts: bool


class MatchLogic(Logic):
    """Matches rows in their order, once the watermark has passed them.

    Args:
        rows: the columns.
        rules: the pattern.
        values: the columns of the values that definitions need, in the order of `Rules.values`.
    """

    def __init__(self, rows: pl.Schema, rules: Rules, values: Sequence[str], told: Told) -> None:
        self._rules = rules
        self._values = list(values)
        self._told = told
        by = {name: rows[name] for name in told.by}
        self.ports = {"input": rows}
        matched = {**by, ID: pl.String(), BEGIN: TIME, FINISH: TIME}
        if told.rows:
            matched |= {NUMBER: pl.Int32(), CLASSIFIER: pl.String()}
            matched |= {name: rows[name] for name in told.rows if name not in by}
        for at, (reference, column) in enumerate(told.asked):
            matched[measure(at)] = _kind(reference, rows[column] if column else None)
        self.outputs = {MAIN: pl.Schema(matched)}
        if told.timeouts:
            out = {
                ID: pl.String(),
                BEGIN: TIME,
                FINISH: TIME,
                ROWS: pl.Int32(),
                REACHED: pl.String(),
            }
            self.outputs[TIMEOUTS] = pl.Schema({**by, **out})
        courses = {
            BEGIN: TIME,
            ROWS: pl.Int32(),
            REACHED: pl.String(),
            "state": pl.String(),
            "path": pl.List(pl.Int64()),
            "places": pl.List(pl.Int32()),
            "start": pl.Int64(),
            "place": pl.Int32(),
            "until": pl.Int64(),
            _NTH: pl.Int64(),
            _DUE: TIME,
        }
        self.tables = {
            _WAITING: waiting_table(rows),
            _KEPT: Table(pl.Schema({**rows, _NTH: pl.Int64()})),
            _COURSES: Table(pl.Schema(courses), due=_DUE),
        }

    def step(self, step: Step) -> Done:
        """Match the rows whose turn has come, and let go of what took too long."""
        new = step.rows["input"].select(KEY, *self.ports["input"])
        ready, waiting = in_turn(new, step.state[_WAITING], AT, step.watermark)
        kept, courses = step.state[_KEPT], step.state[_COURSES]
        due = courses.filter(passed(_DUE, step.watermark)).select(KEY)
        touched = pl.concat([ready.select(KEY), due]).unique()
        state = {_WAITING: waiting}
        if touched.is_empty():
            return Done({}, state)
        how: dict[str, Any] = {"on": KEY, "maintain_order": "left", "nulls_equal": True}
        mine = courses.join(touched, how="semi", **how)
        before = kept.join(touched, how="semi", **how)
        work = _Work(self, self._ordered(before, ready), mine, step.watermark)
        work.run()
        others = [
            kept.join(touched, how="anti", **how),
            courses.join(touched, how="anti", **how),
        ]
        state[_KEPT] = pl.concat([others[0], work.kept().select(kept.columns)])
        state[_COURSES] = pl.concat([others[1], work.courses(courses.schema)])
        return Done(work.outputs(), state)

    def _ordered(self, before: pl.DataFrame, ready: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of keys in order, numbered on behind those that were kept."""
        ready = ready.sort(KEY, AT, TIE, maintain_order=True)
        ready = ready.with_columns(pl.lit(None, pl.Int64()).alias(_NTH))
        before = before.sort(KEY, _NTH)
        rows = pl.concat([before, ready.select(before.columns)])
        rows = rows.sort(KEY, maintain_order=True)
        first = pl.col(_NTH).first().over(KEY).fill_null(0)
        nth = pl.int_range(pl.len(), dtype=pl.Int64()).over(KEY)
        return rows.with_columns(pl.col(_NTH).is_null().alias("__new"), (first + nth).alias(_NTH))


class _Work:
    """The keys of one step."""

    def __init__(
        self, logic: MatchLogic, rows: pl.DataFrame, courses: pl.DataFrame, watermark: int | None
    ) -> None:
        self._logic, self._rows, self._watermark = logic, rows, watermark
        self._rules, self._told = logic._rules, logic._told
        self._before = _by_key(courses)
        self._found: list[tuple[int, Found]] = []
        self._late: list[tuple[int, Found]] = []
        self._left: list[tuple[bytes, Course]] = []
        self._least: dict[bytes, int] = {}

    def run(self) -> None:
        """Match."""
        rows, rules = self._rows, self._rules
        keys = rows[KEY].to_list()
        at = rows[AT].to_physical().to_list()
        holds, new, nth = (rows[name].to_list() for name in (HOLDS, "__new", _NTH))
        columns = [rows[name].to_list() for name in self._logic._values]
        given: Sequence[Sequence[Any]] = (
            list(zip(*columns, strict=True)) if columns else [()] * rows.height
        )
        count, begin = rows.height, 0
        seen = set()
        while begin < count:
            key, end = keys[begin], begin + 1
            while end < count and keys[end] == key:
                end += 1
            seen.add(key)
            base = begin - nth[begin]
            courses = self._restored(self._before.get(key, ()), base, at, holds, given)
            matcher = self._matcher(courses, base)
            take, first = matcher.take, rules.first
            for row in range(begin, end):
                if new[row] and (matcher.courses or first == -1 or holds[row] & first):
                    take(Row(nth[row], at[row], holds[row], given[row]))
            self._end(key, matcher)
            begin = end
        for key, kept in self._before.items():  # of which no row is there any more
            if key not in seen:
                self._end(key, self._matcher(self._restored(kept, 0, at, holds, given), 0))

    def _matcher(self, courses: list[Course], base: int) -> Matcher:
        def found(match: Found) -> None:
            self._found.append((base, match))

        def late(match: Found) -> None:
            self._late.append((base, match))

        return Matcher(self._rules, courses, found, late)

    def _end(self, key: bytes, matcher: Matcher) -> None:
        if self._watermark is not None and matcher.courses:
            matcher.pass_time(self._watermark)
        if matcher.courses:
            self._least[key] = matcher.courses[0].start
            self._left += [(key, course) for course in matcher.courses]

    def _restored(
        self,
        kept: Sequence[Mapping[str, Any]],
        base: int,
        at: Sequence[int],
        holds: Sequence[int],
        given: Sequence[Sequence[Any]],
    ) -> list[Course]:
        courses = []
        for each in kept:
            rows = list(zip(each["path"], each["places"], strict=True))
            totals = self._rules.nothing
            if totals:
                known = [
                    (Row(n, at[base + n], holds[base + n], given[base + n]), place)
                    for n, place in rows
                ]
                totals = totals_of(self._rules, known)
            began = int(each["began"])
            path = path_of(rows)
            courses.append(Course(each["start"], began, each["place"], path, totals, each["until"]))
        return courses

    # -- what is kept ---------------------------------------------------------------------------

    def kept(self) -> pl.DataFrame:
        """Return the rows that courses still have."""
        if not self._least:
            return self._rows.clear()
        least = pl.DataFrame(
            {KEY: list(self._least), "__least": list(self._least.values())},
            schema={KEY: self._rows.schema[KEY], "__least": pl.Int64()},
        )
        kept = self._rows.join(least, on=KEY, how="inner", maintain_order="left", nulls_equal=True)
        return kept.filter(pl.col(_NTH) >= pl.col("__least"))

    def courses(self, schema: pl.Schema) -> pl.DataFrame:
        """Return the courses that are left, in the columns of their table."""
        columns: dict[str, list[Any]] = {name: [] for name in schema}
        within = self._rules.within
        for nth, (key, course) in enumerate(self._left):
            rows = rows_of(course.path)
            due = None
            if course.place == WAITING:
                due = course.until
            elif course.place >= 0 and within is not None:
                due = course.began + within
            made = {
                KEY: key, BEGIN: course.began, ROWS: len(rows), REACHED: self._name(rows[-1][1]),
                "state": _STATES.get(course.place, "begun"), "path": [n for n, _ in rows],
                "places": [place for _, place in rows], "start": course.start,
                "place": course.place, "until": course.until, _NTH: nth, _DUE: due,
            }  # fmt: skip
            for name, each in made.items():
                columns[name].append(each)
        times = {BEGIN, _DUE}
        plain = {name: pl.Int64() if name in times else kind for name, kind in schema.items()}
        frame = pl.DataFrame(columns, schema=plain)
        return frame.with_columns(_as_time(name) for name in times)

    def _name(self, place: int) -> str:
        return str(self._rules.automaton.places[place].name)

    # -- what comes out -------------------------------------------------------------------------

    def outputs(self) -> dict[str, pl.DataFrame]:
        """Return matches, and courses that took too long."""
        found = {}
        if self._found:
            found[MAIN] = self._matches()
        if self._late and self._told.timeouts:
            found[TIMEOUTS] = self._timeouts()
        return found

    def _rows_of(self, matches: Sequence[tuple[int, Found]], *, hidden: bool) -> pl.DataFrame:
        """Return the rows of matches, each with its match and variable."""
        numbers, places, names = [], [], []
        for number, (base, match) in enumerate(matches):
            for row, place in match:
                numbers.append(number)
                places.append(base + row)
                names.append(place)
        known = self._rules.automaton.places
        frame = self._rows[places] if places else self._rows.clear()
        return frame.with_columns(
            pl.Series("__match", numbers, pl.Int64()),
            pl.Series(CLASSIFIER, [known[place].name for place in names], pl.String()),
            pl.Series("__hidden", [hidden and known[p].hidden for p in names], pl.Boolean()),
        )

    def _matches(self) -> pl.DataFrame:
        told, schema = self._told, self._logic.outputs[MAIN]
        rows = self._rows_of(self._found, hidden=True)
        matches = rows.group_by("__match", maintain_order=True).agg(
            pl.col(KEY).first(),
            *(pl.col(name).first() for name in told.by),
            pl.col(AT).first().alias(BEGIN),
            pl.col(AT).last().alias(FINISH),
            pl.col(TIE).first().alias("__tie"),
            *(
                _measured(reference, column).cast(schema[measure(at)]).alias(measure(at))
                for at, (reference, column) in enumerate(told.asked)
            ),
        )
        matches = _with_ids(matches)
        if not told.rows:
            return matches.select(list(schema))
        shown = rows.filter(~pl.col("__hidden")).with_columns(
            pl.int_range(1, pl.len() + 1, dtype=pl.Int32()).over("__match").alias(NUMBER)
        )
        own = [name for name in told.rows if name not in told.by]
        shown = shown.select("__match", NUMBER, CLASSIFIER, *own)
        joined = shown.join(matches, on="__match", how="left", maintain_order="left")
        return joined.select(list(schema))

    def _timeouts(self) -> pl.DataFrame:
        rows = self._rows_of(self._late, hidden=False)
        schema = self._logic.outputs[TIMEOUTS]
        within = self._rules.within or 0
        found = rows.group_by("__match", maintain_order=True).agg(
            pl.col(KEY).first(),
            *(pl.col(name).first() for name in self._told.by),
            pl.col(AT).first().alias(BEGIN),
            (pl.col(AT).first() + pl.duration(microseconds=within)).alias(FINISH),
            pl.col(TIE).first().alias("__tie"),
            pl.len().cast(pl.Int32).alias(ROWS),
            pl.col(CLASSIFIER).last().alias(REACHED),
        )
        return _with_ids(found).select(list(schema))


def _by_key(courses: pl.DataFrame) -> dict[bytes, list[dict[str, Any]]]:
    found: dict[bytes, list[dict[str, Any]]] = {}
    # The order is that of preference.
    times = courses.sort(_NTH).with_columns(pl.col(BEGIN).to_physical().alias("began"))
    for row in times.drop(BEGIN, _DUE).iter_rows(named=True):
        found.setdefault(row[KEY], []).append(row)
    return found


def _id(key: bytes, began: int, tie: Any) -> str:
    """Return what tells a match from every other: its key and its first row."""
    row = tie if isinstance(tie, bytes) else str(tie).encode()
    return hashlib.sha256(b"\0".join((key or b"", b"%d" % began, row))).hexdigest()[:32]


def _with_ids(found: pl.DataFrame) -> pl.DataFrame:
    """Add ids to matches, which have `KEY`, their beginning, and what tells it from others then."""
    begun = zip(
        found[KEY].to_list(),
        found[BEGIN].to_physical().to_list(),
        found["__tie"].to_list(),
        strict=True,
    )
    return found.with_columns(pl.Series(ID, [_id(*each) for each in begun], pl.String()))


def _as_time(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _kind(reference: Reference, given: pl.DataType | None) -> pl.DataType:
    """Return the type of what is asked."""
    if reference.function == "count":
        return pl.Int64()
    assert given is not None  # noqa: S101
    if reference.function == "avg":
        return pl.Float64()
    if reference.function == "collect_list":
        return pl.List(given)
    if reference.function == "sum":
        if isinstance(given, pl.Decimal):
            return pl.Decimal(38, given.scale)
        return pl.Int64() if given.is_integer() else pl.Float64()
    return given


def _measured(reference: Reference, column: str) -> pl.Expr:
    """Return what is asked of the rows of a match."""
    of = pl.col(column) if column else pl.lit(1)
    if reference.variable is not None:
        mine = pl.col(CLASSIFIER) == reference.variable
        if not column:
            return mine.sum()
        of = of.filter(mine)
    elif not column:
        return pl.len()
    function = reference.function
    if function == "count":
        return of.count()
    if function in ("first", "last"):
        return of.first() if function == "first" else of.last()
    if function == "prev":
        return of.get(-2, null_on_oob=True)
    if function == "collect_list":
        return of.drop_nulls().implode()
    total = {"sum": of.sum(), "avg": of.cast(pl.Float64).mean(), "min": of.min(), "max": of.max()}
    if function == "sum":  # of nothing it is null
        return pl.when(of.count() > 0).then(of.sum())
    return total[function]
