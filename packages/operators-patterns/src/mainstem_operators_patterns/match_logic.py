"""What `match` does with the rows of a batch and what it remembers, as frames."""

from __future__ import annotations

import decimal
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl
from mainstem_keyed_state import KEY, MAIN, Done, Logic, Step, Table, runs
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
    TooManyError,
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

#: The variable of a row of a match.
_OF = "__of"
#: Of matches, and of courses: the token of their pattern.
PATTERN, COURSE_PATTERN = "__pattern", "pattern"
_DIGITS = 38  # of a decimal, at most
#: Definitions compute with as many digits as the product of two decimals has.
_EXACTLY = decimal.Context(prec=2 * _DIGITS)
_WAITING, _KEPT, COURSES = "waiting", "rows", "courses"
_NTH, _DUE = "__n", "__due"
_STATES = {MATCHED: "matched", WAITING: "waiting"}


def value(number: int) -> str:
    """Return the column of a value that definitions or measures need."""
    return f"__v{number}"


def measure(number: int) -> str:
    """Return the column of what a measure asks."""
    return f"__m{number}"


@dataclass(frozen=True)
class Book:
    """The patterns of a step.

    Attributes:
        rules: theirs, by a token; of a pattern that has changed there is another one.
        names: the tokens, as `PATTERN`, with what else comes out of each of their matches, and what is to
            tell their matches from others' as `KEY`; None where there is one pattern.
    """

    rules: Mapping[bytes, Rules]
    names: pl.DataFrame | None = None


@dataclass(frozen=True)
class Told:
    """What comes out.

    Attributes:
        by: the key's columns.
        rows: the columns of each row, where all rows of a match come out; none where one row does.
        asked: what measures ask, with the column of its value; empty where rows are counted.
        timeouts: whether courses that took too long do.
        named: the columns that tell the pattern, where there are several.
    """

    by: Sequence[str]
    rows: Sequence[str]
    asked: Sequence[tuple[Reference, str]]
    timeouts: bool
    named: Mapping[str, pl.DataType] = field(default_factory=dict)


class MatchLogic(Logic):
    """Matches rows in their order, once the watermark has passed them.

    Args:
        rows: the columns.
        rules: the pattern; None where `book` tells the patterns.
        values: the columns of the values that definitions need, in the order of `Rules.values`.
    """

    def __init__(
        self, rows: pl.Schema, rules: Rules | None, values: Sequence[str], told: Told
    ) -> None:
        self._values = list(values)
        self._told = told
        by = {**{name: rows[name] for name in told.by}, **told.named}
        self.ports = {"input": rows}
        matched = {**by, ID: pl.String(), BEGIN: TIME, FINISH: TIME}
        if told.rows:
            matched |= {NUMBER: pl.Int32(), CLASSIFIER: pl.String()}
            matched |= {name: rows[name] for name in told.rows if name not in by}
        for at, (reference, column) in enumerate(told.asked):
            matched[measure(at)] = _kind(reference, rows[column] if column else None)
        self._book = Book({} if rules is None else {b"": rules})
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
        # What is told of late rows alone is not kept.
        held = {n: kind for n, kind in rows.items() if n[0] == "_" or n in (*told.by, *told.rows)}
        self.tables = {
            _WAITING: waiting_table(held),
            _KEPT: Table(pl.Schema({**held, _NTH: pl.Int64()})),
            COURSES: Table(pl.Schema(courses), due=_DUE),
        }

    #: In version 1 columns were kept that are told of late rows alone, where somebody read these.
    version = 2

    def migrate(
        self, state: Mapping[str, pl.DataFrame], version: int
    ) -> Mapping[str, pl.DataFrame]:
        return {
            table: rows.select(
                n for n in rows.columns if n == KEY or n in self.tables[table].columns
            )
            for table, rows in state.items()
        }

    def step(self, step: Step) -> Done:
        """Match the rows whose turn has come, and let go of what took too long."""
        new = step.rows["input"].select(n for n in step.state[_KEPT].columns if n != _NTH)
        ready, waiting = in_turn(new, step.state[_WAITING], AT, step.watermark)
        kept, courses = step.state[_KEPT], step.state[COURSES]
        due = courses.filter(passed(_DUE, step.watermark)).select(KEY)
        touched = pl.concat([ready.select(KEY), due]).unique()
        state = {_WAITING: waiting}
        if touched.is_empty():
            return Done({}, state)
        how: dict[str, Any] = {"on": KEY, "maintain_order": "left", "nulls_equal": True}
        mine = courses.join(touched, how="semi", **how)
        before = kept.join(touched, how="semi", **how)
        work = _Work(self, self.book(step), self._ordered(before, ready), mine, step.watermark)
        with decimal.localcontext(_EXACTLY):
            work.run()
        others = [
            kept.join(touched, how="anti", **how),
            courses.join(touched, how="anti", **how),
        ]
        state[_KEPT] = pl.concat([others[0], work.kept().select(kept.columns)])
        state[COURSES] = pl.concat([others[1], work.courses(courses.schema)])
        return Done({**work.outputs(), **self.let_go(step, work.refused)}, state)

    def let_go(
        self, step: Step, refused: Sequence[tuple[bytes, str]]
    ) -> Mapping[str, pl.DataFrame]:
        """Return what is told of patterns that had too many partial matches of a key."""
        return {}

    def book(self, step: Step) -> Book:
        """Return the patterns."""
        return self._book

    def _ordered(self, before: pl.DataFrame, ready: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of keys in order, numbered on behind those that were kept."""
        ready = ready.sort(KEY, AT, TIE, maintain_order=True)
        ready = ready.with_columns(pl.lit(None, pl.Int64()).alias(_NTH))
        before = before.sort(KEY, _NTH)
        rows = pl.concat([before, ready.select(before.columns)])
        rows = rows.sort(KEY, maintain_order=True)
        first = pl.col(_NTH).first().over(KEY).fill_null(0)
        return rows.with_columns(
            pl.col(_NTH).is_null().alias("__new"), (first + runs.place()).alias(_NTH)
        )


class _Work:
    """The keys of one step."""

    def __init__(
        self,
        logic: MatchLogic,
        book: Book,
        rows: pl.DataFrame,
        courses: pl.DataFrame,
        watermark: int | None,
    ) -> None:
        self._logic, self._rows, self._watermark = logic, rows, watermark
        self._told, self._book = logic._told, book
        self._before = _by_key(courses, book)
        self._found: list[_Match] = []
        self._late: list[_Match] = []
        self._left: list[tuple[bytes, bytes, Course]] = []
        self._least: dict[bytes, int] = {}
        #: Patterns whose partial matches of a key were let go of, and why.
        self.refused: list[tuple[bytes, str]] = []
        # The rows, by columns.
        self._at = rows[AT].to_physical().to_list()
        self._holds, self._new, self._nth = (rows[n].to_list() for n in (HOLDS, "__new", _NTH))
        columns = [rows[name].to_list() for name in logic._values]
        self._given: Sequence[Sequence[Any]] = (
            list(zip(*columns, strict=True)) if columns else [()] * rows.height
        )

    def run(self) -> None:
        """Match."""
        keys = self._rows[KEY].to_list()
        count, begin = len(keys), 0
        seen = set()
        single = next(iter(self._book.rules.items())) if self._book.names is None else None
        starting = _Starting(self._book.rules)
        while begin < count:
            key, end = keys[begin], begin + 1
            while end < count and keys[end] == key:
                end += 1
            seen.add(key)
            base = begin - self._nth[begin]
            if single is not None:
                self._match(key, *single, begin, end, base)
            else:
                self._match_all(key, starting, begin, end, base)
            begin = end
        for key, kept in self._before.items():  # of which no row is there any more
            if key not in seen:
                for token, courses in kept.items():
                    rules = self._book.rules[token]
                    self._end(key, token, self._matcher(token, rules, courses, 0))

    def _match(
        self, key: bytes, token: bytes, rules: Rules, begin: int, end: int, base: int
    ) -> None:
        """Match the rows of a key with one pattern."""
        at, holds, new, nth, given = self._at, self._holds, self._new, self._nth, self._given
        matcher = self._matcher(token, rules, self._before.get(key, {}).get(token, ()), base)
        take, first = matcher.take, rules.first
        for row in range(begin, end):
            if new[row] and (matcher.courses or first == -1 or holds[row] & first):
                take(Row(nth[row], at[row], holds[row], given[row]))
        self._end(key, token, matcher)

    def _match_all(self, key: bytes, starting: _Starting, begin: int, end: int, base: int) -> None:
        """Match the rows of a key with several patterns, each by those that it has begun with or may."""
        rules = self._book.rules
        alive = {
            token: self._matcher(token, rules[token], kept, base)
            for token, kept in self._before.get(key, {}).items()
        }
        for at in range(begin, end):
            if not self._new[at]:
                continue
            holds = self._holds[at]
            for token in starting.with_row(holds):
                if token not in alive:
                    alive[token] = self._matcher(token, rules[token], (), base)
            if not alive:
                continue
            row = Row(self._nth[at], self._at[at], holds, self._given[at])
            for token, matcher in list(alive.items()):
                try:
                    matcher.take(row)
                except TooManyError as error:  # a pattern is data, which must not end the query
                    self.refused.append((token, str(error)))
                    del alive[token]
                    continue
                if not matcher.courses:
                    del alive[token]
        for token, matcher in alive.items():
            self._end(key, token, matcher)

    def _matcher(
        self, token: bytes, rules: Rules, kept: Sequence[Mapping[str, Any]], base: int
    ) -> Matcher:
        def found(match: Found) -> None:
            self._found.append(_Match(base, token, match))

        def late(match: Found) -> None:
            self._late.append(_Match(base, token, match))

        return Matcher(rules, self._restored(rules, kept, base), found, late)

    def _end(self, key: bytes, token: bytes, matcher: Matcher) -> None:
        if self._watermark is not None and matcher.courses:
            matcher.pass_time(self._watermark)
        if matcher.courses:
            start = matcher.courses[0].start
            self._least[key] = min(start, self._least.get(key, start))
            self._left += [(key, token, course) for course in matcher.courses]

    def _restored(self, rules: Rules, kept: Sequence[Mapping[str, Any]], base: int) -> list[Course]:
        courses = []
        for each in kept:
            rows = list(zip(each["path"], each["places"], strict=True))
            totals = rules.nothing
            if totals:
                known = [
                    (
                        Row(n, self._at[base + n], self._holds[base + n], self._given[base + n]),
                        place,
                    )
                    for n, place in rows
                ]
                totals = totals_of(rules, known)
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
        for nth, (key, token, course) in enumerate(self._left):
            rules = self._book.rules[token]
            rows = rows_of(course.path)
            due = None
            if course.place == WAITING:
                due = course.until
            elif course.place >= 0 and rules.within is not None:
                due = course.began + rules.within
            made = {
                KEY: key, BEGIN: course.began, ROWS: len(rows),
                REACHED: rules.automaton.places[rows[-1][1]].name, COURSE_PATTERN: token,
                "state": _STATES.get(course.place, "begun"), "path": [n for n, _ in rows],
                "places": [place for _, place in rows], "start": course.start,
                "place": course.place, "until": course.until, _NTH: nth, _DUE: due,
            }  # fmt: skip
            for name in columns:
                columns[name].append(made[name])
        times = {BEGIN, _DUE}
        plain = {name: pl.Int64() if name in times else kind for name, kind in schema.items()}
        frame = pl.DataFrame(columns, schema=plain)
        return frame.with_columns(_as_time(name) for name in times)

    # -- what comes out -------------------------------------------------------------------------

    def outputs(self) -> dict[str, pl.DataFrame]:
        """Return matches, and courses that took too long."""
        found = {}
        if self._found:
            found[MAIN] = self._matches()
        if self._late and self._told.timeouts:
            found[TIMEOUTS] = self._timeouts()
        return found

    def _rows_of(self, matches: Sequence[_Match], *, hidden: bool) -> pl.DataFrame:
        """Return the rows of matches, each with its match and variable."""
        numbers, rows, names, hides, tokens = [], [], [], [], []
        for number, match in enumerate(matches):
            places = self._book.rules[match.token].automaton.places
            for row, place in match.rows:
                numbers.append(number)
                rows.append(match.base + row)
                names.append(places[place].name)
                hides.append(hidden and places[place].hidden)
                tokens.append(match.token)
        frame = self._rows[rows] if rows else self._rows.clear()
        return frame.with_columns(
            pl.Series("__match", numbers, pl.Int64()),
            pl.Series(_OF, names, pl.String()),
            pl.Series("__hidden", hides, pl.Boolean()),
            pl.Series(PATTERN, tokens, pl.Binary()),
        )

    def _matches(self) -> pl.DataFrame:
        told, schema = self._told, self._logic.outputs[MAIN]
        rows = self._rows_of(self._found, hidden=True)
        matches = rows.group_by("__match", maintain_order=True).agg(
            pl.col(KEY, PATTERN, *told.by).first(),
            pl.col(AT).first().alias(BEGIN),
            pl.col(AT).last().alias(FINISH),
            pl.col(TIE).first().alias("__tie"),
            *(
                _measured(reference, column, schema[measure(at)]).alias(measure(at))
                for at, (reference, column) in enumerate(told.asked)
            ),
        )
        matches = _with_ids(self._named(matches))
        if not told.rows:
            return matches.select(list(schema))
        shown = rows.filter(~pl.col("__hidden")).with_columns(
            (runs.place("__match") + 1).cast(pl.Int32).alias(NUMBER)
        )
        own = [name for name in told.rows if name not in told.by]
        shown = shown.select("__match", NUMBER, pl.col(_OF).alias(CLASSIFIER), *own)
        joined = shown.join(matches, on="__match", how="left", maintain_order="left")
        return joined.select(list(schema))

    def _timeouts(self) -> pl.DataFrame:
        rows = self._rows_of(self._late, hidden=False)
        schema = self._logic.outputs[TIMEOUTS]
        within = next(iter(self._book.rules.values())).within or 0
        found = rows.group_by("__match", maintain_order=True).agg(
            pl.col(KEY, PATTERN, *self._told.by).first(),
            pl.col(AT).first().alias(BEGIN),
            (pl.col(AT).first() + pl.duration(microseconds=within)).alias(FINISH),
            pl.col(TIE).first().alias("__tie"),
            pl.len().cast(pl.Int32).alias(ROWS),
            pl.col(_OF).last().alias(REACHED),
        )
        return _with_ids(self._named(found)).select(list(schema))

    def _named(self, found: pl.DataFrame) -> pl.DataFrame:
        """Add to matches what tells their patterns; what makes their ids is of these too."""
        names = self._book.names
        if names is None:
            return found
        names = names.rename({KEY: "__whose"})
        found = found.join(names, on=PATTERN, how="left", maintain_order="left")
        return found.with_columns(pl.concat_list(KEY, "__whose").alias("__ids"))


class _Match(NamedTuple):
    """A match: the number of its key's row 0 in the frame, the pattern's token, its rows."""

    base: int
    token: bytes
    rows: Found


class _Starting:
    """Which patterns a row can begin."""

    def __init__(self, rules: Mapping[bytes, Rules]) -> None:
        self._rules = rules
        self._known: dict[int, list[bytes]] = {}

    def with_row(self, holds: int) -> list[bytes]:
        """Return the tokens of those that a row of some variables can begin."""
        found = self._known.get(holds)
        if found is None:
            found = [
                token
                for token, each in self._rules.items()
                if each.first == -1 or each.first & holds
            ]
            self._known[holds] = found
        return found


def _by_key(courses: pl.DataFrame, book: Book) -> dict[bytes, dict[bytes, list[dict[str, Any]]]]:
    """Return courses by key and pattern; those of patterns that are no longer there end."""
    found: dict[bytes, dict[bytes, list[dict[str, Any]]]] = {}
    # The order is that of preference.
    times = courses.sort(_NTH).with_columns(pl.col(BEGIN).to_physical().alias("began"))
    for row in times.drop(BEGIN, _DUE).iter_rows(named=True):
        token = row.get(COURSE_PATTERN, b"")
        if token in book.rules:
            found.setdefault(row[KEY], {}).setdefault(token, []).append(row)
    return found


def _id(keys: Sequence[bytes | None], began: int, tie: Any) -> str:
    """Return what tells a match from every other: its key, its pattern's, and its first row."""
    row = tie if isinstance(tie, bytes) else str(tie).encode()
    whole = b"\0".join((*(key or b"" for key in keys), b"%d" % began, row))
    return hashlib.sha256(whole).hexdigest()[:32]


def _with_ids(found: pl.DataFrame) -> pl.DataFrame:
    """Add ids to matches, which have `KEY`, their beginning, and what tells it from others then."""
    keys = found["__ids"].to_list() if "__ids" in found.columns else [[k] for k in found[KEY]]
    begun = zip(
        keys,
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


def _measured(reference: Reference, column: str, kind: pl.DataType) -> pl.Expr:
    """Return what is asked of the rows of a match.

    Args:
        column: that of the value; empty where rows are counted.
        kind: the type of what comes out.
    """
    of = pl.col(column) if column else pl.lit(1)
    if reference.variable is not None:
        mine = pl.col(_OF) == reference.variable
        if not column:
            return mine.sum().cast(kind)
        of = of.filter(mine)
    elif not column:
        return pl.len().cast(kind)
    function = reference.function
    if function == "count":
        found = of.count()
    elif function in ("first", "last"):
        found = of.first() if function == "first" else of.last()
    elif function == "prev":
        found = of.get(-2, null_on_oob=True)
    elif function == "collect_list":
        found = of.drop_nulls().implode()
    elif function == "avg":
        found = of.cast(pl.Float64).mean()
    elif function == "sum":
        found = _sum(of, kind)
    elif function == "min":
        found = of.min()
    else:  # NaN is the greatest number
        found = of.nan_max() if kind in (pl.Float32, pl.Float64) else of.max()
    return found.cast(kind)


def _sum(of: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """Return a sum; null of nothing, and where its type does not hold it."""
    if kind == pl.Float64():
        total = of.cast(pl.Float64).sum()
    else:  # added up exactly, and not in the values' own type, where it would wrap
        scale = getattr(kind, "scale", 0)
        fits = of.cast(pl.Float64).sum().abs() < 10.0 ** (_DIGITS - scale)
        # What does not fit is not added up at all: Polars would end the run for it.
        exact = pl.when(fits).then(of.cast(pl.Decimal(_DIGITS, scale)))
        total = exact.sum().cast(kind, strict=False)
        return pl.when(fits & (of.count() > 0)).then(total)
    return pl.when(of.count() > 0).then(total)
