"""What the operators with patterns share: definitions, measures, columns of matches."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
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

from mainstem_operators_patterns.expressions import (
    RUNNING,
    Definition,
    Expression,
    ExpressionError,
    Reference,
    read_expression,
    referred,
)
from mainstem_operators_patterns.kinds import check_types
from mainstem_operators_patterns.matching import Skip
from mainstem_operators_patterns.vocabulary import Vocabulary

if TYPE_CHECKING:
    from mainstem import OperatorContext
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from mainstem_operators_patterns.match_logic import Told

MICROSECOND = timedelta(microseconds=1)
_SKIP = re.compile(r"past_last_row|to_next_row|to_(first|last) (\w+)")
#: Bits of a BIGINT.
_MOST_VARIABLES = 62


class MatchingOptions(Options):
    """Options that the operators share."""

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


class Matching(ByKey):
    """Finds matches among the rows of each key, in the order of their time."""

    options: MatchingOptions

    # -- what the options say -----------------------------------------------------------------

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The variables, in the order of their bits."""

    @cached_property
    @abstractmethod
    def definitions(self) -> dict[str, Expression]:
        """What rows of variables are, by variable."""

    @abstractmethod
    def _lasts(self) -> timedelta:
        """Return how long after a match's last row it may be told."""

    def _told_by(self, inputs: Inputs[Shape]) -> list[Column]:
        """Return the columns that tell whose matches they are: the key's, and what else does."""
        given = self._stream(inputs)
        return [find_column(given.columns, name, "by") for name in self.key_columns(given)]

    def _stream(self, inputs: Inputs[Shape]) -> Shape:
        return inputs["input"]

    def _defined(self) -> dict[str, Expression]:
        """Return definitions as they are read.

        Raises:
            OptionError: one can't be; names the variable.
        """
        found = {}
        # In an order that is not the document's: it is that of values in the state.
        for name in (each for each in self.names if each in self.options.define):
            sql = self.options.define[name]
            try:
                found[name] = read_expression(sql, self.names, own=name)
                if found[name].references:
                    Definition(found[name])
            except ExpressionError as error:
                raise OptionError(f"{name}: {error}", option="define") from None
            for reference in found[name].references:
                if reference.function not in RUNNING:
                    raise OptionError(
                        f"{name}: {reference.function} is for measures", option="define"
                    )
        if len(self.names) > _MOST_VARIABLES:
            raise OptionError(f"more than {_MOST_VARIABLES} variables", option="define")
        return found

    @cached_property
    def measures(self) -> dict[str, Expression]:
        """What columns of a match are, by column."""
        found = {}
        for name, sql in self.options.measures.items():
            try:
                found[name] = read_expression(sql, self.names)
            except ExpressionError as error:
                raise OptionError(f"{name}: {error}", option="measures") from None
        return found

    @property
    def _within(self) -> int | None:
        within = self.options.within
        return None if within is None else within // MICROSECOND

    @property
    def skips_to(self) -> str | None:
        """The variable that `skip` names."""
        skip = _SKIP.fullmatch(self.options.skip)
        return skip[2] if skip else None

    def vocabulary(self) -> Vocabulary:
        """Return what the rules of patterns are made with."""
        skip = _SKIP.fullmatch(self.options.skip)
        assert skip is not None  # noqa: S101
        to: Skip = {
            "past_last_row": Skip("last"),
            "to_next_row": Skip("next"),
        }.get(self.options.skip) or Skip("first_of" if skip[1] == "first" else "last_of", skip[2])
        return Vocabulary(tuple(self.names), self.definitions, to, self._within)

    # -- what the core asks -------------------------------------------------------------------

    def keys(self, inputs: Inputs[Shape]) -> Mapping[str, Sequence[str]]:
        """Return the key: one for all rows where `by` is empty."""
        return super().keys(Inputs(input=self._stream(inputs)))

    def refuses(self, inputs: Inputs[Shape]) -> Mapping[str, Mapping[str, str]]:
        return super().refuses(Inputs(input=self._stream(inputs)))

    def shape(self, inputs: Inputs[Shape]) -> Shape:
        from mainstem_operators_patterns.names import ALL, ID, MATCH

        given, options = self._stream(inputs), self.options
        time = needed_time(given)
        for name in options.order:
            find_column(given.columns, name, "order")
        self.definitions, self.measures  # noqa: B018
        columns = [*self._told_by(inputs), *MATCH]
        identity = [ID]
        if options.rows == "all":
            keys = self.key_columns(given)
            columns += ALL
            columns += [c for c in given.columns if c.name not in keys]
            identity.append(ALL[0].name)
        columns += [Column(name, None) for name in self.measures]
        hint = "Name measures otherwise, or rename the input's columns by `select` before."
        _unlike(columns, "measures", hint)
        held = EventTime(
            MATCH[2].name,
            timedelta(0),
            punctual=True,
            passed=True,
            behind=time.behind + self._lasts(),
        )
        return Events(columns, identity=identity, event_time=held)

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        from mainstem_operators_patterns.names import ID, LEFT, MATCH

        found = dict(super().outputs(inputs))
        if self.options.within is not None:
            columns = [*self._told_by(inputs), *MATCH, *LEFT]
            _unlike(columns, "by", "Rename that column by `select` before.")
            found["timeouts"] = Events(columns, identity=[ID])
        return found

    def state(self, inputs: Inputs[Shape]) -> StateFacts:
        options, found = self.options, super().state(inputs)
        shaped_by = {
            **found.shaped_by,
            "define": dict(options.define),
            "within": self._within,
            "columns": list(self._stream(inputs).names),
            "order": list(options.order),
            "asked": [str(each) for each in self._asked()],
        }
        if options.rows == "all":  # other columns are kept
            shaped_by["rows"] = "all"
        return replace(found, shaped_by=shaped_by, waits=True)

    def holds(self, inputs: Inputs[Shape]) -> timedelta:
        return self._lasts() + MICROSECOND

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
        order = dict.fromkeys(self.vocabulary().values)
        return {sql: needed[sql] for sql in (*order, *(sql for sql in needed if sql not in order))}

    # -- frames ---------------------------------------------------------------------------------

    def rows(self, inputs: Inputs[DataFrame], ctx: OperatorContext) -> Mapping[str, DataFrame]:
        given = self._stream(ctx.shapes)
        kept = [column.name for column in given.columns]
        if self.options.rows == "one" and "late" not in ctx.wanted:
            needed = (*self.key_columns(given), event_time(given))
            kept = [name for name in kept if name in needed]
        return {"input": self.prepared(inputs["input"], given, kept)}

    def prepared(self, frame: DataFrame, given: Shape, kept: Sequence[str]) -> DataFrame:
        """Return rows with what the logic needs beside some of their columns.

        That is `AT`, `TIE`, `HOLDS` and, for the SQL in `_values`, `value` of its number.

        Raises:
            OptionError: Spark does not take some SQL; names the variable.
        """
        from mainstem_operators_patterns.match_logic import AT, HOLDS, TIE, value

        columns = [quoted(name) for name in kept]
        columns.append(f"{quoted(event_time(given) or '')} AS {AT}")
        order = [find_column(given.columns, name, "order").name for name in self.options.order]
        columns.append(f"{_tie(frame, order)} AS {TIE}")
        bits = []
        for at, name in enumerate(self.names):
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
        made = frame.selectExpr(*columns)
        types = dict(made.dtypes)
        self._check_types({sql: types[value(at)] for at, sql in enumerate(self._values())})
        return made

    def _check_types(self, types: Mapping[str, str]) -> None:
        """See that definitions put together what can be.

        Args:
            types: those of the SQL of one row, as Spark calls them.

        Raises:
            OptionError: one compares a date with a text, say; names the variable.
        """
        for name, expression in self.definitions.items():
            if not expression.references:
                continue
            try:
                check_types(Definition(expression), types)
            except ExpressionError as error:
                raise OptionError(f"{name}: {error}", option="define") from None

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

    def _told(self, inputs: Inputs[Shape]) -> Told:
        """Return what comes out, by the columns of rows at the logic's port."""
        from mainstem_operators_patterns.match_logic import Told, value

        given = self._stream(inputs)
        place = {sql: value(at) for at, sql in enumerate(self._values())}
        return Told(
            self.key_columns(given),
            [c.name for c in given.columns] if self.options.rows == "all" else [],
            [(each, place[each.value] if each.value else "") for each in self._asked()],
            self.options.within is not None,
        )

    def needed(self) -> list[str]:
        """Return the columns of the values that definitions need, in the order of `Rules.values`."""
        from mainstem_operators_patterns.match_logic import value

        place = {sql: value(at) for at, sql in enumerate(self._values())}
        return [place[sql] for sql in self.vocabulary().values]

    def types(
        self, rows: Mapping[str, DataFrame], inputs: Inputs[Shape]
    ) -> Mapping[str, Mapping[str, str | DataType]]:
        """Return the types of what measures ask, where that is a value of a row or a list of such."""
        from pyspark.sql.types import ArrayType

        from mainstem_operators_patterns.match_logic import measure

        there = {field.name: field.dataType for field in rows["input"].schema}
        found: dict[str, str | DataType] = {}
        for at, (each, column) in enumerate(self._told(inputs).asked):
            if each.function in ("first", "last", "prev", "min", "max"):
                found[measure(at)] = there[column]
            elif each.function == "collect_list":
                found[measure(at)] = ArrayType(there[column])
        return {"": found}

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


def _unlike(columns: Sequence[Column], option: str, hint: str) -> None:
    """Refuse columns two of which have one name."""
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise OptionError(f"there are two columns {column.name!r}", option=option, hint=hint)
        seen.add(column.name.lower())


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
