"""Totals as a document writes them: aggregate functions, and the SQL around them.

Spark computes what is inside a function's brackets, row by row, and what stands around them, of what the
functions give. So any expression can be a total, whoever keeps the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mainstem import OptionError

#: By each aggregate function, how many arguments it takes at least and at most.
FUNCTIONS: Mapping[str, tuple[int, int]] = {
    "count": (0, 99),
    "count_if": (1, 1),
    **dict.fromkeys(("sum", "try_sum", "avg", "mean", "try_avg", "min", "max"), (1, 1)),
    **dict.fromkeys(("first", "first_value", "last", "last_value", "any_value"), (1, 2)),
    **dict.fromkeys(("min_by", "max_by"), (2, 2)),
    **dict.fromkeys(("std", "stddev", "stddev_samp", "stddev_pop"), (1, 1)),
    **dict.fromkeys(("variance", "var_samp", "var_pop"), (1, 1)),
    **dict.fromkeys(("corr", "covar_samp", "covar_pop"), (2, 2)),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), (1, 1)),
    **dict.fromkeys(("bool_and", "every", "bool_or", "some", "any"), (1, 1)),
    "percentile": (2, 2),
    **dict.fromkeys(("percentile_cont", "percentile_disc"), (1, 1)),
    **dict.fromkeys(("median", "mode"), (1, 1)),
    **dict.fromkeys(("collect_list", "array_agg", "collect_set"), (1, 1)),
    **dict.fromkeys(("hll_sketch_agg", "theta_sketch_agg"), (1, 2)),
    **dict.fromkeys(("kll_sketch_agg_double", "kll_sketch_agg_float"), (1, 2)),
    **dict.fromkeys(("kll_sketch_agg_bigint", "approx_top_k_accumulate"), (1, 2)),
    "approx_top_k": (1, 3),
}
#: Spark's other ones, which only its own state can do.
_SPARKS_ALONE = frozenset(
    {
        *("tuple_sketch_agg_double", "tuple_sketch_agg_integer"),
        *("hll_union_agg", "theta_union_agg", "theta_intersection_agg"),
        *("approx_count_distinct", "approx_percentile", "percentile_approx"),
        *("approx_top_k_combine", "kll_merge_agg_bigint", "kll_merge_agg_double"),
        *("kll_merge_agg_float", "tuple_union_agg_double", "tuple_union_agg_integer"),
        *("tuple_intersection_agg_double", "tuple_intersection_agg_integer"),
        *("bitmap_construct_agg", "bitmap_or_agg", "count_min_sketch", "histogram_numeric"),
        *("kurtosis", "skewness", "listagg", "string_agg", "regr_avgx", "regr_avgy", "regr_count"),
        *("regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy"),
    }
)
#: Functions that can be over distinct values.
_DISTINCT = frozenset({"count", "sum", "avg", "mean"})
#: Functions over the values that WITHIN GROUP puts in order.
ORDERED = frozenset({"percentile_cont", "percentile_disc"})
#: By each function that makes a sketch, which of its arguments says how large it is.
SIZED: Mapping[str, int] = {
    **dict.fromkeys(("hll_sketch_agg", "theta_sketch_agg"), 1),
    **dict.fromkeys(("kll_sketch_agg_double", "kll_sketch_agg_float"), 1),
    **dict.fromkeys(("kll_sketch_agg_bigint", "approx_top_k_accumulate"), 1),
    "approx_top_k": 2,
}
#: By each of them, between which sizes Spark has it.
_SIZES: Mapping[str, tuple[int, int]] = {
    "hll_sketch_agg": (4, 21),
    "theta_sketch_agg": (4, 26),
    **dict.fromkeys((each for each in SIZED if each.startswith("kll")), (8, 65_535)),
    **dict.fromkeys(("approx_top_k", "approx_top_k_accumulate"), (1, 1_000_000)),
}
#: Functions that may leave nulls out.
_NULLS = frozenset({"first", "first_value", "last", "last_value", "any_value"})

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      |(?P<text>[rR](?:'[^']*'|"[^"]*")|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:[^`]|``)*`)
      |(?P<word>[^\W\d]\w*)
      |(?P<number>\d[\w.]*)
      |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Call:
    """A call of an aggregate function.

    Attributes:
        function: its name in lower case.
        arguments: the SQL of each, over a row.
        distinct: whether each value counts once.
        where: the condition of FILTER; empty for none.
        ignores_nulls: whether nulls are left out that the function would take.
        order: what WITHIN GROUP orders by; empty without it.
        descending: whether it does so downwards.
        text: the call as written.
    """

    function: str
    arguments: tuple[str, ...]
    distinct: bool = False
    where: str = ""
    ignores_nulls: bool = False
    order: str = ""
    descending: bool = False
    text: str = ""

    @property
    def values(self) -> tuple[str, ...]:
        """The SQL of what it is over, of a row: not which percentile, nor how large a sketch is."""
        if self.order:
            return (self.order,)
        one = self.function == "percentile" or self.function in SIZED
        return self.arguments[:1] if one else self.arguments


@dataclass(frozen=True)
class Total:
    """A total: SQL with calls of aggregate functions in it."""

    name: str
    pieces: tuple[str | Call, ...]

    @property
    def calls(self) -> Iterator[Call]:
        """The calls, in order."""
        return (piece for piece in self.pieces if isinstance(piece, Call))

    def sql(self, given: Mapping[Call, str]) -> str:
        """Return the SQL over what the calls give.

        Args:
            given: SQL for what each call gives.
        """
        return "".join(p if isinstance(p, str) else f"({given[p]})" for p in self.pieces)


def read_total(name: str, text: str) -> Total:
    """Read a total of a document.

    Raises:
        OptionError: it has no aggregate function, or one that state by key can't do.
    """
    pieces: list[str | Call] = []
    tokens = [*_tokens(text)]
    at = written = 0
    while at < len(tokens):
        word = tokens[at].word
        opens = _next(tokens, at + 1)
        calls = word and opens is not None and tokens[opens].text == "("
        if calls and word in _SPARKS_ALONE:
            raise _wrong(name, f"{word} can't be computed here", _hint())
        if not calls or word not in FUNCTIONS or _is_field(tokens, at):
            at += 1
            continue
        begin = at
        call, at = _call(name, text, tokens, begin, opens or 0)
        pieces += [text[written : tokens[begin].start], call]
        written = tokens[at - 1].end
    if not pieces:
        raise _wrong(name, f"{text!r} has no aggregate function", _hint())
    return Total(name, (*pieces, text[written:]))


def _hint() -> str:
    return f"Functions: {', '.join(sorted(FUNCTIONS))}."


@dataclass(frozen=True)
class _Token:
    text: str
    start: int
    is_word: bool
    is_space: bool

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        return self.text.lower() if self.is_word else ""


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        yield _Token(found[0], found.start(), kind == "word", kind == "space")


def _next(tokens: Sequence[_Token], at: int) -> int | None:
    """Return the place of the first token from a place on that is no space."""
    return next((n for n in range(at, len(tokens)) if not tokens[n].is_space), None)


def _is_field(tokens: Sequence[_Token], at: int) -> bool:
    before = next((t for t in reversed(tokens[:at]) if not t.is_space), None)
    return before is not None and before.text == "."


def _call(name: str, text: str, tokens: Sequence[_Token], at: int, opens: int) -> tuple[Call, int]:
    """Return the call that begins at a token, and where the tokens go on behind it."""
    function = tokens[at].word
    closes = _closing(name, tokens, opens)
    distinct, arguments = _arguments(text, tokens, opens, closes)
    end, order, where, ignores = closes + 1, "", "", False
    while True:
        words = _words(tokens, end, 3)
        if words[:2] == ["within", "group"] and not order:
            begin = tokens.index(_find(tokens, end, "("), end)
            end = _closing(name, tokens, begin) + 1
            order = _inside(text, tokens, begin, end - 1)
        elif words[:1] == ["filter"] and not where:
            begin = tokens.index(_find(tokens, end, "("), end)
            end = _closing(name, tokens, begin) + 1
            where = _inside(text, tokens, begin, end - 1)
        elif words[:2] in (["ignore", "nulls"], ["respect", "nulls"]):
            ignores = words[0] == "ignore"
            end = tokens.index(_find(tokens, end, "nulls"), end) + 1
        elif words[:1] == ["over"]:
            raise _wrong(name, "has a window function, which is no aggregate")
        else:
            break
    if function in _NULLS and len(arguments) == 2:
        if arguments[1].lower() not in ("true", "false"):
            raise _wrong(name, f"whether {function} ignores nulls is `true` or `false`")
        ignores, arguments = arguments[1].lower() == "true", arguments[:1]
    if arguments == ("*",):
        arguments = ()
    descending = False
    if order:
        order, descending = _ordering(name, order)
    call = Call(
        function,
        arguments,
        distinct,
        _condition(name, where),
        ignores,
        order,
        descending,
        text[tokens[at].start : tokens[end - 1].end],
    )
    _check(name, call)
    return call, end


def _check(name: str, call: Call) -> None:
    least, most = FUNCTIONS[call.function]
    if not least <= len(call.arguments) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise _wrong(name, f"{call.function} takes {wanted} arguments, not {len(call.arguments)}")
    if call.distinct and call.function not in _DISTINCT:
        raise _wrong(name, f"{call.function} can't be over DISTINCT values here")
    if call.distinct and not call.arguments:
        raise _wrong(name, "count(DISTINCT *) is over no column: name those that are meant")
    if bool(call.order) != (call.function in ORDERED):
        wanted = "needs" if call.function in ORDERED else "takes no"
        raise _wrong(name, f"{call.function} {wanted} WITHIN GROUP (ORDER BY ...)")
    if call.ignores_nulls and call.function not in _NULLS:
        raise _wrong(name, f"{call.function} takes no IGNORE NULLS")
    if call.function.startswith("percentile"):
        fractions(call)
    size_of(call)
    if call.function == "approx_top_k":
        most_frequent(call)
    for inner in (*call.arguments, call.where, call.order):
        words = [token.word for token in _tokens(inner) if not token.is_space]
        signs = [token.text for token in _tokens(inner) if not token.is_space]
        for word, sign in zip(words, signs[1:], strict=False):
            if word in FUNCTIONS and sign == "(" and word not in ("any", "some"):
                raise _wrong(name, f"{call.function} is over another aggregate function, {word}")


def size_of(call: Call) -> int | None:
    """Return how large a sketch is to be, as the call says; None if it does not.

    Raises:
        OptionError: what it says is no number.
    """
    if not 0 < SIZED.get(call.function, 0) < len(call.arguments):
        return None
    text = call.arguments[SIZED[call.function]]
    if not text.isdecimal():
        message = f"{call.text}: how large a sketch is, is a whole number"
        raise OptionError(message, option="columns")
    least, most = _SIZES[call.function]
    if not least <= int(text) <= most:
        message = f"{call.text}: how large a sketch is, is a number from {least} to {most:,}"
        raise OptionError(message, option="columns")
    return int(text)


def most_frequent(call: Call) -> int:
    """Return how many values `approx_top_k` gives.

    Raises:
        OptionError: what it says is no number of values that its sketch has.
    """
    text = call.arguments[1] if len(call.arguments) > 1 else "5"
    size = size_of(call)
    most = 10_000 if size is None else size
    if not text.isdecimal() or not 1 <= int(text) <= most:
        message = f"{call.text}: how many values it gives is a number from 1 to {most:,}"
        raise OptionError(message, option="columns")
    return int(text)


def fractions(call: Call) -> float | list[float]:
    """Return which percentiles are asked for.

    Raises:
        OptionError: it is no number from 0 to 1, nor an array of such.
    """
    if call.function == "median":
        return 0.5
    text = call.arguments[-1].strip()
    inside = text.lower().removeprefix("array").strip()
    several = inside != text and inside[:1] in ("(", "[")
    try:
        found = [float(each) for each in (inside[1:-1].split(",") if several else [text])]
    except ValueError:
        found = []
    if not found or not all(0 <= each <= 1 for each in found):
        message = f"{call.text}: which percentile is a number from 0 to 1, or an array of such"
        raise OptionError(message, option="columns")
    return found if several else found[0]


def _closing(name: str, tokens: Sequence[_Token], opens: int) -> int:
    depth = 0
    for at in range(opens, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[at].text, 0)
        if not depth:
            return at
    raise _wrong(name, "a bracket is not closed")


def _inside(text: str, tokens: Sequence[_Token], opens: int, closes: int) -> str:
    return text[tokens[opens].end : tokens[closes].start].strip()


def _find(tokens: Sequence[_Token], at: int, wanted: str) -> _Token:
    return next(token for token in tokens[at:] if token.text.lower() == wanted)


def _words(tokens: Sequence[_Token], at: int, number: int) -> list[str]:
    """Return the next words, and the bracket behind them must be there."""
    found = [token for token in tokens[at:] if not token.is_space][:number]
    words = [token.word for token in found]
    if words[:1] in (["filter"], ["over"]) and [t.text for t in found[1:2]] != ["("]:
        return []
    if words[:2] == ["within", "group"] and [t.text for t in found[2:3]] != ["("]:
        return []
    return words


def _arguments(
    text: str, tokens: Sequence[_Token], opens: int, closes: int
) -> tuple[bool, tuple[str, ...]]:
    """Return whether a call is over distinct values, and its arguments."""
    begin, depth, cuts = tokens[opens].end, 0, []
    words = [token for token in tokens[opens + 1 : closes] if not token.is_space]
    distinct = bool(words) and words[0].word == "distinct"
    if words and words[0].word in ("distinct", "all"):
        begin = words[0].end
    for token in tokens[opens + 1 : closes]:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        if token.text == "," and not depth:
            cuts.append(token)
    starts = [begin, *(cut.end for cut in cuts)]
    ends = [*(cut.start for cut in cuts), tokens[closes].start]
    found = [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    return distinct, () if found == [""] else tuple(found)


def _condition(name: str, where: str) -> str:
    if where and not where.lower().startswith("where"):
        raise _wrong(name, "FILTER has a condition: FILTER (WHERE ...)")
    return where[len("where") :].strip()


def _ordering(name: str, order: str) -> tuple[str, bool]:
    """Return what WITHIN GROUP orders by, and whether downwards."""
    found = re.fullmatch(r"order\s+by\s+(.*?)(?:\s+(asc|desc))?", order, re.I | re.S)
    if found is None:
        raise _wrong(name, "WITHIN GROUP has an order: WITHIN GROUP (ORDER BY ...)")
    return found[1], (found[2] or "").lower() == "desc"


def _wrong(name: str, message: str, hint: str = "") -> OptionError:
    return OptionError(f"{name}: {message}", option="columns", hint=hint)
