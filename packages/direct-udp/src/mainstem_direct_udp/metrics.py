"""Lines of StatsD, in Etsy's and DataDog's dialects, become columns.

    NAME:VALUE[:VALUE...]|TYPE[|@RATE][|#TAG:VALUE,...][|c:CONTAINER][|TSECONDS]

Types are `c` (counter), `g` (gauge; with a sign in front it is a change), `ms` (timer), `h` (histogram),
`d` (distribution) and `s` (set). DataDog's events (`_e{5,4}:title|text|...`) and service checks
(`_sc|name|0|...`) are known, too. Lines of the usual order are read all at once; others one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow
import pyarrow.compute

pa: Any = pyarrow
pc: Any = pyarrow.compute

KINDS = {
    "c": "counter", "g": "gauge", "ms": "timer", "h": "histogram", "d": "distribution", "s": "set",
}  # fmt: skip
#: Read in one way only: where there are two, a long text that is none takes the square of its length.
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
#: A number that any DOUBLE holds.
_SAFE = r"[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,2})?"
#: A line as nearly all are: numbers, then rate, tags, container and time, in this order.
_USUAL = (
    rf"^(?P<name>[^:|@#\x00-\x1f]+):(?P<values>{_SAFE}(?::{_SAFE})*)\|(?P<type>c|g|ms|h|d)"
    rf"(?:\|@(?P<rate>\d?\.?\d{{1,15}}))?(?:\|#(?P<tags>[^|]*))?(?:\|c:[^|]*)?(?:\|T(?P<time>\d{{1,11}}))?$"
)
#: A longer line is looked at by itself; and how many bytes all rows of a line may have together.
_LONG, _MOST = 1000, 1_000_000
#: The column with which line it was, which orders rows.
_LINE = "__line"
_TAGS: Any = pa.map_(pa.string(), pa.string())
_TIME: Any = pa.timestamp("us", "UTC")
#: Seconds since 1970.
_DIGITS = re.compile(r"\d{1,11}", re.ASCII)
_EVENT = re.compile(r"_e\{(\d{1,9}),(\d{1,9})\}:(.*)", re.DOTALL | re.ASCII)
#: Which column each field of an event and of a check is, by its letter.
_OF_EVENT = {
    "h": "host",
    "p": "priority",
    "t": "alert_type",
    "k": "aggregation_key",
    "s": "source_type",
}
_LARGEST = 1.7976931348623157e308


class LineError(ValueError):
    """A line is none; says why."""


@dataclass
class Parsed:
    """What some datagrams say.

    Attributes:
        metrics: their columns, by name; None if there are none.
        events, checks: rows.
        refused: lines that are none, and why.
    """

    metrics: dict[str, Any] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    refused: list[tuple[bytes, str]] = field(default_factory=list)


def read(datagrams: Sequence[bytes], times: Sequence[int]) -> Parsed:
    """Return what datagrams say, each with its time in microseconds since 1970."""
    found = Parsed()
    texts = []
    for data in datagrams:
        try:
            texts.append(data.decode())
        except UnicodeDecodeError:
            texts.append("\n".join(_texts(data, found)))
    # Lines of an event may have a line's end in them only as \\n.
    lists: Any = pc.split_pattern(pa.array(texts, pa.string()), "\n")
    of: Any = pc.list_parent_indices(lists)
    lines: Any = pc.utf8_rtrim(lists.flatten(), "\r")
    there = pc.not_equal(lines, "")
    lines, of = lines.filter(there), of.filter(there)
    at = pa.array(times, pa.int64()).take(of)
    numbers = pa.array(range(len(lines)))
    usual: Any = pc.extract_regex(lines, _USUAL)
    rate = usual.field("rate")
    rates = pc.cast(_number(pc.if_else(pc.equal(rate, ""), "1", rate)), pa.float64())
    fits = pc.and_(pc.greater(rates, 0.0), pc.less_equal(rates, 1.0))
    quick = pc.and_(usual.is_valid(), pc.fill_null(fits, pa.scalar(False)))
    quick = pc.and_(quick, pc.less_equal(pc.binary_length(lines), _LONG))
    rows: list[dict[str, Any]] = []
    slow = pc.invert(quick)
    for line, when, number in zip(
        *(each.filter(slow).to_pylist() for each in (lines, at, numbers)), strict=True
    ):
        try:
            _one(line, when, number, rows, found)
        except LineError as error:
            found.refused.append((line.encode(), str(error)))
    parts = []
    if pc.any(quick).as_py():
        parts.append(_usual(*(each.filter(quick) for each in (usual, rates, at, numbers))))
    if rows:
        parts.append(_columns(rows))
    if parts:
        made = {n: pa.concat_arrays([part[n] for part in parts]) for n in parts[0]}
        order = pc.array_sort_indices(made.pop(_LINE))
        found.metrics = made if len(parts) == 1 else {n: c.take(order) for n, c in made.items()}
    return found


def _texts(data: bytes, found: Parsed) -> Iterator[str]:
    """Yield the lines of a datagram that are text; the others are refused."""
    for line in data.split(b"\n"):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            found.refused.append((line, "it is no text of UTF-8"))


def _usual(found: Any, rates: Any, at: Any, numbers: Any) -> dict[str, Any]:
    """Return the columns of lines of the usual order, whose rates are numbers by now."""
    name, values, kind, _, tags, time = (found.field(n) for n in range(6))
    lists: Any = pc.split_pattern(values, ":")
    of: Any = pc.list_parent_indices(lists)
    each: Any = lists.flatten()
    if len(each) > len(values):
        name, kind, rates, tags, time, at, numbers = (
            column.take(of) for column in (name, kind, rates, tags, time, at, numbers)
        )
    value = pc.cast(_number(each), pa.float64())
    counter, signed = pc.equal(kind, "c"), pc.match_substring_regex(each, "^[+-]")
    given = pc.multiply(pc.cast(pc.if_else(pc.equal(time, ""), None, time), pa.int64()), 1_000_000)
    words = pa.array(list(KINDS.values())).take(pc.index_in(kind, value_set=pa.array(list(KINDS))))
    return {
        "name": name,
        "type": words,
        "value": value,
        "text": pa.nulls(len(each), pa.string()),
        "relative": pc.and_(pc.equal(kind, "g"), signed),
        "rate": rates,
        "scaled": pc.if_else(counter, pc.divide(value, rates), pa.scalar(None, pa.float64())),
        "tags": _tags(tags),
        "at": pc.coalesce(given, at).cast(_TIME),
        _LINE: numbers,
    }


def _number(texts: Any) -> Any:
    """Return numbers as Arrow reads them: without a plus."""
    return pc.replace_substring_regex(texts, r"^\+", "")


def _tags(texts: Any) -> Any:
    """Return tags as maps; the same ones come again and again."""
    encoded = texts.dictionary_encode()
    made = pa.array([tags_of(text) for text in encoded.dictionary.to_pylist()], _TAGS)
    return made.take(encoded.indices)


def tags_of(text: str) -> list[tuple[str, str]]:
    """Return tags by name, of one that is there twice the last; one without a value has an empty one."""
    found = (tag.partition(":") for tag in text.split(",") if tag)
    return list({name: value for name, _, value in found}.items())


_RATE = "its sample rate is not above 0 and at most 1"
_WIDE = "its value is no number"


def _one(line: str, at: int, number: int, rows: list[dict[str, Any]], found: Parsed) -> None:
    """Read a line by itself.

    Raises:
        LineError: it is none.
    """
    if line.startswith("_e{"):
        found.events.append(_event(line, at))
    elif line.startswith("_sc|"):
        found.checks.append(_check(line, at))
    else:
        rows += [row | {_LINE: number} for row in _metric(line, at)]


def _metric(line: str, at: int) -> list[dict[str, Any]]:
    head, *sections = line.split("|")
    name, colon, values = head.partition(":")
    if not colon or not name or not sections:
        raise LineError("expected NAME:VALUE|TYPE")
    kind = KINDS.get(sections[0])
    if kind is None:
        raise LineError(f"there is no type {sections[0][:20]!r}")
    rate, tags, when = 1.0, "", at
    for section in sections[1:]:
        if section.startswith("@"):
            rate = _float(section[1:], _RATE)
            if not 0 < rate <= 1:
                raise LineError(_RATE)
        elif section.startswith("#"):
            tags = section[1:]
        elif section.startswith("T") and _DIGITS.fullmatch(section[1:]):
            when = int(section[1:]) * 1_000_000
        elif not section.startswith(("c:", "e:", "card:")):
            raise LineError(f"there is no section {section[:20]!r}")
    row = {"name": name, "type": kind, "rate": rate, "tags": tags_of(tags), "at": when}
    if kind == "set":
        return [{**row, "text": values, "relative": False}]
    made = []
    if len(line) * (values.count(":") + 1) > _MOST:
        raise LineError("it has too many values for so long a line")
    for text in values.split(":"):
        value = _float(text, _WIDE)
        scaled = value / rate if kind == "counter" else None
        if scaled is not None and abs(scaled) > _LARGEST:
            raise LineError(_WIDE)
        relative = kind == "gauge" and text[:1] in ("+", "-")
        made.append({**row, "value": value, "relative": relative, "scaled": scaled})
    return made


def _float(text: str, why: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise LineError(why)
    found = float(text)
    if abs(found) > _LARGEST:
        raise LineError(why)
    return found


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    kinds: dict[str, Any] = {
        "name": pa.string(), "type": pa.string(), "value": pa.float64(), "text": pa.string(),
        "relative": pa.bool_(), "rate": pa.float64(), "scaled": pa.float64(), "tags": _TAGS, "at": _TIME,
        _LINE: pa.int64(),
    }  # fmt: skip
    return {name: pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()}


def _event(line: str, at: int) -> dict[str, Any]:
    found = _EVENT.fullmatch(line)
    if found is None:
        raise LineError("expected _e{LENGTH,LENGTH}:TITLE|TEXT")
    rest = found[3].encode()
    first, second = int(found[1]), int(found[2])
    end = first + 1 + second
    if len(rest) < end or rest[first : first + 1] != b"|" or rest[end : end + 1] not in (b"", b"|"):
        raise LineError("its lengths are not those of its title and text")
    try:
        title, text = rest[:first].decode(), rest[first + 1 : end].decode()
    except UnicodeDecodeError:
        raise LineError("its lengths cut a character") from None
    row = {"title": title, "text": text.replace("\\n", "\n"), "at": at}
    return row | _fields(rest[end + 1 :].decode().split("|"), _OF_EVENT)


def _check(line: str, at: int) -> dict[str, Any]:
    _, name, *sections = [*line.split("|", 3), "", ""][:4]
    status, rest = sections
    if not name or status not in ("0", "1", "2", "3"):
        raise LineError("expected _sc|NAME|STATUS, of 0 to 3")
    row: dict[str, Any] = {"name": name, "status": int(status), "at": at}
    text, _, message = rest.partition("m:") if rest.startswith("m:") else rest.partition("|m:")
    if message:
        row["message"] = message.replace("\\n", "\n")
    return row | _fields(text.split("|"), {"h": "host"})


def _fields(sections: Sequence[str], names: dict[str, str]) -> dict[str, Any]:
    """Return what stands in sections: by a letter, tags, the time.

    Raises:
        LineError: one is none.
    """
    row: dict[str, Any] = {"tags": []}
    for section in filter(None, sections):
        letter, colon, value = section.partition(":")
        if section.startswith("#"):
            row["tags"] = tags_of(section[1:])
        elif colon and letter == "d" and _DIGITS.fullmatch(value):
            row["at"] = int(value) * 1_000_000
        elif colon and letter in names:
            row[names[letter]] = value
        elif not section.startswith(("c:", "e:", "card:")):
            raise LineError(f"there is no section {section[:20]!r}")
    return row
