"""Lines of syslog become columns: RFC 5424, and RFC 3164 as far as it is one.

An old line has no year and no zone: the year is the last in which it is no more than a week ahead of when
it is read, the zone UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from mainstem.formats.arrow import Array, pa
from mainstem.formats.json_values import EMPTY, NOT_UTF8, NULL, Decoded
from mainstem.formats.kinds import arrow_type
from mainstem.formats.syslog_columns import SYSLOG

#: How far ahead of the clock a line without a year may be.
_AHEAD = timedelta(days=7)
_PRIORITY = re.compile(r"<(\d{1,3})>")
_NEW = re.compile(
    r"1 (?P<at>\S+) (?P<host>\S{1,255}) (?P<app>\S{1,48}) (?P<process>\S{1,128}) "
    r"(?P<id>\S{1,32}) (?P<rest>.*)",
    re.DOTALL,
)
_OLD = re.compile(
    r"(?P<at>[A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2}) (?P<host>\S+) "
    r"(?:(?P<app>[^\s:\[]{1,48})(?:\[(?P<process>[^\]\s]{1,128})\])?: ?)?(?P<message>.*)",
    re.DOTALL,
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_ELEMENT = re.compile(r'\[([^\s=\]"]{1,32})((?: [^\s=\]"]{1,32}="(?:[^"\\\]]|\\.)*")*)\]')
_PARAMETER = re.compile(r' ([^\s=\]"]{1,32})="((?:[^"\\\]]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r'\\(["\\\]])')


class SyslogValues:
    """Reads lines, a value each."""

    def read(self, values: Array) -> Decoded:
        """Return the columns of an array of bytes, and why rows are refused."""
        now = datetime.now(UTC)
        rows: list[tuple[Any, ...]] = []
        reasons: list[str | None] = []
        none = (None,) * len(SYSLOG)
        for value in values.to_pylist():
            found = _line(value, now)
            rows.append(none if isinstance(found, str) else found)
            reasons.append(found if isinstance(found, str) else None)
        columns = zip(*rows, strict=True) if rows else ((),) * len(SYSLOG)
        arrays = [
            pa.array(list(column), arrow_type(known.type or ""))
            for column, known in zip(columns, SYSLOG, strict=True)
        ]
        return arrays, reasons


def _line(value: bytes | None, now: datetime) -> tuple[Any, ...] | str:
    """Return the columns of a line, or why it is none."""
    if value is None:
        return NULL
    try:
        text = value.decode().rstrip("\r\n\0")
    except UnicodeDecodeError:
        return NOT_UTF8
    if not text:
        return EMPTY
    found = _PRIORITY.match(text)
    if found is None or int(found[1]) > 191:
        return "it begins with no priority, <0> to <191>"
    facility, severity = divmod(int(found[1]), 8)
    rest = text[found.end() :]
    if (new := _NEW.fullmatch(rest)) is not None:
        return _new(facility, severity, new)
    if rest[:2] == "1 ":
        return "its head is not that of RFC 5424"
    old = _OLD.fullmatch(rest)
    if old is None:  # RFC 3164 takes it as it is
        return (facility, severity, None, None, None, None, None, None, rest)
    at = _old_time(old["at"], now)
    if at is None:
        return f"its time is none: {old['at']}"
    return (
        facility,
        severity,
        at,
        old["host"],
        old["app"],
        old["process"],
        None,
        None,
        old["message"],
    )


def _new(facility: int, severity: int, found: re.Match[str]) -> tuple[Any, ...] | str:
    at: datetime | None = None
    if found["at"] != "-":
        if not _TIME.fullmatch(found["at"]):
            return f"its time is not that of RFC 5424: {found['at'][:40]}"
        try:
            at = datetime.fromisoformat(found["at"]).astimezone(UTC)
        except ValueError:
            return f"its time is none: {found['at'][:40]}"
        except OverflowError:
            return f"its time is beyond the years 1 to 9999: {found['at'][:40]}"
    rest, data = found["rest"], None
    if rest.startswith("["):
        data, end = [], 0
        while (element := _ELEMENT.match(rest, end)) is not None:
            pairs: dict[str, str] = {}
            for name, text in _PARAMETER.findall(element[2]):
                plain = _ESCAPED.sub(r"\1", text)  # a name may come several times
                pairs[name] = f"{pairs[name]}, {plain}" if name in pairs else plain
            data.append((element[1], list(pairs.items())))
            end = element.end()
        if not end or rest[end : end + 1] not in ("", " "):
            return "its structured data is not that of RFC 5424"
        if len(dict(data)) < len(data):
            return "its structured data has an element twice"
        rest = rest[end:]
    elif rest[:1] == "-" and rest[1:2] in ("", " "):
        rest = rest[1:]
    else:
        return "its structured data is not that of RFC 5424"
    message = rest[1:].removeprefix("\ufeff") if rest else None
    held = (
        None if found[name] == "-" else found[name] for name in ("host", "app", "process", "id")
    )
    return (facility, severity, at, *held, data, message)


def _old_time(text: str, now: datetime) -> datetime | None:
    """Return a time that has no year."""
    for year in (now.year + 1, now.year, now.year - 1, now.year - 2, now.year - 3, now.year - 4):
        try:
            at = datetime.strptime(f"{year} {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:  # no such day in that year
            continue
        if at <= now + _AHEAD:
            return at
    return None
