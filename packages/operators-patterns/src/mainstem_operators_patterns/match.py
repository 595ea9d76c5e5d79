"""Operator `match`: patterns of events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from mainstem import (
    Events,
    EventTime,
    Inputs,
    OptionError,
    Options,
    PositiveDuration,
    Shape,
    StateFacts,
    option,
)
from mainstem.columns import Column, find_column, quoted
from mainstem_keyed_state import event_time
from mainstem_keyed_state.by_key import ByKey, needed_time

from mainstem_operators_patterns.automaton import (
    Automaton,
    UnfitPatternError,
    compiled,
)
from mainstem_operators_patterns.expressions import (
    RUNNING,
    Definition,
    Expression,
    ExpressionError,
    Reference,
    read_expression,
    referred,
)
from mainstem_operators_patterns.matching import Rules, Skip
from mainstem_operators_patterns.pattern import Pattern, PatternError, read_pattern, variables

if TYPE_CHECKING:
    import polars as pl
    from mainstem import OperatorContext
    from mainstem_keyed_state import Logic
    from pyspark.sql import DataFrame

_MICROSECOND = timedelta(microseconds=1)
_SKIP = re.compile(r"past_last_row|to_next_row|to_(first|last) (\w+)")
#: Bits of a BIGINT.
_MOST_VARIABLES = 62


class MatchOptions(Options):
    """Options of `match`."""

    by: list[str] = option(
        list,
        description="The key columns: rows of a key make matches among themselves. When left out, all "
        "rows do, and one task does the work.",
        example=["card"],
    )
    order: list[str] = option(
        list,
        description="Columns that order the rows of one time.",
        example=["position"],
    )
    pattern: str = option(
        min_length=1,
        description="Variables in the order of their rows: `a b` one after the other, `a ... b` with "
        "others between, `a !c b` with others between that are no `c`, `a | b` one of them, `( )` "
        "groups, `?`, `*`, `+`, `{2,5}` how often (as often as can be; with `?` behind as seldom), "
        "`{- a -}` rows that do not come out, `PERMUTE(a, b)` in any order; at the end `!c within 1 "
        "hour`: no `c` follows.",
        example="small{2,5} large",
    )
    define: dict[str, str] = option(
        dict,
        description="What a row of a variable is, in SQL over its columns, and over the rows of the "
        "match so far: `small.amount` is of the last row of `small`; `first`, `last`, `prev`, `count`, "
        "`sum`, `avg`, `min` and `max` are of all rows of a variable, or of the match. A variable "
        "without a definition is any row.",
        example={"small": "amount < 100", "large": "amount > 10 * avg(small.amount)"},
    )
    within: PositiveDuration | None = option(
        None,
        description="A match's last row comes less than this after its first. Without it, what has begun "
        "is kept for ever.",
        example="10 minutes",
    )
    skip: str = option(
        "past_last_row",
        pattern=f"^({_SKIP.pattern})$",
        description="Where another match may begin after one: `past_last_row`, `to_next_row` (behind its "
        "first), `to_first NAME` or `to_last NAME` (at a row of a variable, behind the first row).",
    )
    rows: Literal["one", "all"] = option(
        "one",
        description="`one`: a row for each match; `all`: its rows, each with its variable in "
        "`classifier` and its number in `match_row`.",
    )
    measures: dict[str, str] = option(
        dict,
        description="Columns of a match, in SQL as in `define`, over all its rows; `collect_list` too.",
        example={"smalls": "count(small)", "total": "sum(amount)"},
    )


class Match(ByKey):
    """Finds patterns among the rows of each key, in the order of their time.

    Rows wait until the watermark has passed them. Partial matches that took too long come out of
    `timeouts`.
    """

    options: MatchOptions

    # -- what the options say -----------------------------------------------------------------

    @cached_property
    def pattern(self) -> Pattern:
        """The pattern.

        Raises:
            OptionError: it can't be read, or names what is not there.
        """
        options = self.options
        try:
            found = read_pattern(options.pattern)
        except PatternError as error:
            raise OptionError(str(error), option="pattern") from None
        for name in options.define:
            if name not in found.names:
                raise OptionError(f"{name!r} is not in the pattern", option="define")
        skip = _SKIP.fullmatch(options.skip)
        if skip and skip[2] and skip[2] not in set(variables(found.node)):
            raise OptionError(f"{skip[2]!r} is not in the pattern", option="skip")
        if found.absence and found.absence.within is None and options.within is None:
            raise OptionError(
                f"how long must no {found.absence.name} follow?",
                option="pattern",
                hint=f"Write !{found.absence.name} within 1 hour, or give `within`.",
            )
        if len(found.names) > _MOST_VARIABLES:
            raise OptionError(f"more than {_MOST_VARIABLES} variables", option="pattern")
        return found

    @cached_property
    def automaton(self) -> Automaton:
        """The pattern as an automaton."""
        try:
            return compiled(self.pattern)
        except UnfitPatternError as error:
            raise OptionError(str(error), option="pattern") from None

    @cached_property
    def definitions(self) -> dict[str, Expression]:
        """What rows of variables are, by variable."""
        found = {}
        names = self.pattern.names
        for name, sql in self.options.define.items():
            try:
                found[name] = read_expression(sql, names, own=name)
                if found[name].references:
                    Definition(found[name])
            except ExpressionError as error:
                raise OptionError(f"{name}: {error}", option="define") from None
            for reference in found[name].references:
                if reference.function not in RUNNING:
                    raise OptionError(
                        f"{name}: {reference.function} is for measures", option="define"
                    )
        between = {p.name for p in self.automaton.places if p.between and p.name}
        if self.pattern.absence:
            between.add(self.pattern.absence.name)
        for name in between & {n for n, each in found.items() if each.references}:
            raise OptionError(
                f"{name}: what must not be there is told by its row alone", option="define"
            )
        for name in between:
            if name not in found:
                raise OptionError(
                    f"{name!r} has no definition, so that every row is one", option="define"
                )
        return found

    @cached_property
    def measures(self) -> dict[str, Expression]:
        """What columns of a match are, by column."""
        found = {}
        for name, sql in self.options.measures.items():
            try:
                found[name] = read_expression(sql, self.pattern.names)
            except ExpressionError as error:
                raise OptionError(f"{name}: {error}", option="measures") from None
        return found

    @property
    def _within(self) -> int | None:
        within = self.options.within
        return None if within is None else within // _MICROSECOND

    def _rules(self) -> Rules:
        names, options = self.pattern.names, self.options
        skip = _SKIP.fullmatch(options.skip)
        assert skip is not None  # noqa: S101
        to: Skip = {
            "past_last_row": Skip("last"),
            "to_next_row": Skip("next"),
        }.get(options.skip) or Skip("first_of" if skip[1] == "first" else "last_of", skip[2])
        looking = {n: each for n, each in self.definitions.items() if each.references}
        absence = self.pattern.absence
        absent = None
        if absence is not None:
            length = -1 if absence.within is None else absence.within // _MICROSECOND
            absent = (names.index(absence.name), length)
        return Rules(
            self.automaton,
            names,
            to,
            self._within,
            {names.index(name): Definition(each) for name, each in looking.items()},
            list(referred(iter(looking.values()))),
            absent,
        )

    # -- what the core asks -------------------------------------------------------------------

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        from mainstem_operators_patterns.names import ALL, ID, MATCH

        given, options = inputs.only, self.options
        time = needed_time(given)
        keys = self.key_columns(given)
        for name in options.order:
            find_column(given.columns, name, "order")
        self.automaton, self.definitions, self.measures  # noqa: B018
        columns = [find_column(given.columns, name, "by") for name in keys]
        columns += MATCH
        identity = [ID]
        if options.rows == "all":
            columns += ALL
            columns += [c for c in given.columns if c.name not in keys]
            identity.append(ALL[0].name)
        columns += [Column(name, None) for name in self.measures]
        seen: dict[str, str] = {}
        for column in columns:
            if (known := seen.setdefault(column.name.lower(), column.name)) is not column.name:
                raise OptionError(
                    f"there are two columns {known!r}",
                    option="measures",
                    hint="Name measures otherwise, or rename the input's columns by `select` before.",
                )
        held = EventTime(
            MATCH[2].name,
            timedelta(0),
            punctual=True,
            passed=True,
            behind=time.behind + self._lasts(),
        )
        return Events(columns, identity=identity, event_time=held)

    def _lasts(self) -> timedelta:
        """Return how long after a match's last row it may be told."""
        absence = self.pattern.absence
        after = timedelta(0) if absence is None else absence.within or timedelta(0)
        return (self.options.within or timedelta(0)) + after

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        from mainstem_operators_patterns.names import ID, LEFT, MATCH

        found = dict(super().outputs(inputs))
        if self.options.within is not None:
            given = inputs.only
            keys = self.key_columns(given)
            columns = [find_column(given.columns, name, "by") for name in keys]
            found["timeouts"] = Events([*columns, *MATCH, *LEFT], identity=[ID])
        return found

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        options, found = self.options, super().state(inputs)
        shaped_by = {
            **found.shaped_by,
            "pattern": options.pattern,
            "define": dict(options.define),
            "within": self._within,
            "columns": list(inputs.only.names),
            "order": list(options.order),
            "asked": [str(each) for each in self._asked()],
        }
        grows = ""
        if options.within is None:
            grows = "what has begun to match is kept until it ends: give `within`."
        return replace(found, shaped_by=shaped_by, grows=grows, waits=True)

    def holds(self, inputs: Inputs[Shape]) -> timedelta:
        return self._lasts() + _MICROSECOND

    def _asked(self) -> list[Reference]:
        return list(referred(iter(self.measures.values())))

    def _values(self) -> dict[str, tuple[str, str]]:
        """Return the SQL of one row that is needed, in the order of its columns, and what it is of.

        That is an option, and the variable or measure there.
        """
        needed: dict[str, tuple[str, str]] = {}
        for name, expression in self.measures.items():
            needed |= {r.value: ("measures", name) for r in expression.references if r.value}
        for name, expression in self.definitions.items():
            if expression.references:
                values = [*Definition(expression).values, *(r.value for r in expression.references)]
                needed |= {sql: ("define", name) for sql in values if sql}
        order = dict.fromkeys(self._rules().values)
        return {sql: needed[sql] for sql in (*order, *(sql for sql in needed if sql not in order))}

    # -- frames ---------------------------------------------------------------------------------

    def rows(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Mapping[str, DataFrame]:
        from mainstem_operators_patterns.match_logic import AT, HOLDS, TIE, value

        given, frame = ctx.shapes.only, inputs.only
        time = event_time(given) or ""
        keys = self.key_columns(given)
        kept = [column.name for column in given.columns]
        if self.options.rows == "one" and "late" not in ctx.wanted:
            kept = [name for name in kept if name in (*keys, time)]
        columns = [quoted(name) for name in kept]
        columns.append(f"{quoted(time)} AS {AT}")
        columns.append(f"{_tie(frame, self._ordered(given))} AS {TIE}")
        bits = []
        for at, name in enumerate(self.pattern.names):
            expression = self.definitions.get(name)
            if expression is None:
                bits.append(f"CAST({1 << at} AS BIGINT)")
            elif not expression.references:
                sql = expression.texts[0]
                self._checked(frame, f"IF(({sql}), 1, 0)", "define", name)
                bits.append(f"IF(COALESCE(({sql}), false), {1 << at}L, 0L)")
        columns.append(f"{' + '.join(bits) or '0L'} AS {HOLDS}")
        for at, (sql, (where, name)) in enumerate(self._values().items()):
            self._checked(frame, sql, where, name)
            columns.append(f"({sql}) AS {value(at)}")
        return {"input": frame.selectExpr(*columns)}

    def _ordered(self, given: Shape) -> list[str]:
        return [find_column(given.columns, name, "order").name for name in self.options.order]

    def _checked(self, frame: DataFrame, sql: str, option: str, what: str) -> None:
        """See that Spark takes SQL of one row.

        Raises:
            OptionError: it does not; names the variable.
        """
        from pyspark.errors import AnalysisException, ParseException

        try:
            frame.selectExpr(f"({sql}) AS it")
        except (AnalysisException, ParseException) as error:
            told = str(error).strip().splitlines()[0]
            raise OptionError(f"{what}: {told}", option=option) from None

    def logic(self, rows: Mapping[str, pl.Schema], inputs: Inputs[Shape]) -> Logic:
        from mainstem_operators_patterns.match_logic import MatchLogic, Told, value

        given, rules, values = inputs.only, self._rules(), list(self._values())
        place = {sql: value(at) for at, sql in enumerate(values)}
        told = Told(
            self.key_columns(given),
            [c.name for c in given.columns] if self.options.rows == "all" else [],
            [(each, place[each.value] if each.value else "") for each in self._asked()],
            self.options.within is not None,
        )
        needed = [place[sql] for sql in rules.values]
        return MatchLogic(rows["input"], rules, needed, told)

    def apply(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> DataFrame:
        from mainstem_operators_patterns.match_logic import measure

        frame = super().apply(inputs, ctx)
        places = {each: at for at, each in enumerate(self._asked())}
        shown = []
        for name, expression in self.measures.items():
            sql = expression.written(lambda each: measure(places[each]))
            self._checked(frame, sql, "measures", name)
            shown.append(f"({sql}) AS {quoted(name)}")
        asked = {measure(at) for at in places.values()}
        kept = [quoted(name) for name in frame.columns if name not in asked]
        return frame.selectExpr(*kept, *shown)


def _tie(frame: DataFrame, order: list[str]) -> str:
    """Return SQL for what orders rows of one time, the same however they come."""
    names = [quoted(name) for name in order]
    if "_id" in frame.columns:
        last = "_id"
    else:
        # Of maps and variants there is no hash.
        hashed = [
            quoted(field.name)
            for field in frame.schema
            if not any(kind in field.dataType.simpleString() for kind in ("map<", "variant"))
        ]
        last = f"lpad(hex(xxhash64({', '.join(hashed)})), 16, '0')"
    if not names:
        return last
    return f"struct({', '.join([*names, last])})"
