"""Lines of syslog: the examples of both standards, and what is none."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from mainstem.formats.syslog_columns import SYSLOG
from mainstem.formats.syslog_values import SyslogValues

NAMES = [column.name for column in SYSLOG]


def read(*values):
    arrays, reasons = SyslogValues().read(pa.array(values, pa.binary()))
    rows = zip(*(array.to_pylist() for array in arrays), strict=True)
    return [
        reason or {n: plain(v) for n, v in zip(NAMES, row, strict=True) if v is not None}
        for row, reason in zip(rows, reasons, strict=True)
    ]


def plain(value):
    """Return maps, which are lists of pairs, as dicts: older versions of Arrow turn the outer ones alone."""
    return {k: plain(v) for k, v in value} if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \ufeff'su root' failed on /dev/pts/8",
            {"facility": 4, "severity": 2, "at": datetime(2003, 10, 11, 22, 14, 15, 3000, UTC),
             "host": "mymachine.example.com", "app": "su", "message_id": "ID47",
             "message": "'su root' failed on /dev/pts/8"},
        ),
        (
            "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time.",
            {"facility": 20, "severity": 5, "at": datetime(2003, 8, 24, 12, 14, 15, 3, UTC),
             "host": "192.0.2.1", "app": "myproc", "process": "8710", "message": "%% It's time."},
        ),
        (
            '<165>1 - - evntslog - ID47 [a@1 iut="3" e="x\\"y\\]z"][b@2 c="d"] body',
            {"facility": 20, "severity": 5, "app": "evntslog", "message_id": "ID47",
             "data": {"a@1": {"iut": "3", "e": 'x"y]z'}, "b@2": {"c": "d"}}, "message": "body"},
        ),
        (
            '<0>1 - - - - - [origin ip="192.0.2.1" ip="192.0.2.129"]',
            {"facility": 0, "severity": 0, "data": {"origin": {"ip": "192.0.2.1, 192.0.2.129"}}},
        ),
        ('<0>1 - - - - - [x@1]', {"facility": 0, "severity": 0, "data": {"x@1": {}}}),
        ("<191>1 - - - - - -\n", {"facility": 23, "severity": 7}),
        ("<13>no head at all", {"facility": 1, "severity": 5, "message": "no head at all"}),
    ],
)  # fmt: skip
def test_lines_of_the_standards(line, expected):
    """Pass: each field, the zone too."""
    assert read(line.encode()) == [expected]


def test_old_lines_are_of_the_last_year_that_can_be():
    """Pass: host, program and process; the last year in which the time is not ahead; a day that no year has is none."""
    now = datetime.now(UTC)
    for days in (-350, -3, 0, 6):
        then = (now + timedelta(days=days)).replace(microsecond=0)
        text = f"{then:%b} {then.day:2d} {then:%H:%M:%S}"
        (row,) = read(f"<38>{text} web1 sshd[42]: Accepted: yes".encode())
        assert row["at"] == then
        assert (row["host"], row["app"], row["process"]) == ("web1", "sshd", "42")
        assert row["message"] == "Accepted: yes"
    (row,) = read(b"<38>Jan  1 00:00:00 web1 plain words")
    assert (row["host"], row["message"]) == ("web1", "plain words")
    assert "time is none" in read(b"<38>Feb 31 00:00:00 web1 a: b")[0]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"plain", "no priority"),
        (b"<192>1 - - - - - -", "no priority"),
        (b"<1>1 - - -", "not that of RFC 5424"),
        (b"<1>1 yesterday h a p i -", "time is not that of RFC 5424"),
        (b"<1>1 2026-01-01T00:00:00 h a p i -", "time is not that of RFC 5424"),
        (b"<1>1 0001-01-01T00:00:00+14:00 h a p i -", "beyond the years"),
        (b"<1>1 9999-12-31T23:59:59-14:00 h a p i -", "beyond the years"),
        (b'<1>1 - h a p i [x y="1" message', "structured data"),
        (b"<1>1 - h a p i nothing", "structured data"),
        (b'<1>1 - h a p i [x y="1"][x z="2"]', "an element twice"),
        (b"<1>\xff", "not UTF-8"),
        (b"", "empty"),
        (None, "null"),
        (b"<1>1 2026-01-02T03:04:05.123456789Z h a - - - m", "its time is not that of RFC 5424"),
        (b"<1>1 2026-W01-1T00:00:00Z h a - - - m", "its time is not that of RFC 5424"),
        (b"<1>1 20260102T030405Z h a - - - m", "its time is not that of RFC 5424"),
        (b"<1>1 2026-01-02T03:04Z h a - - - m", "its time is not that of RFC 5424"),
        (b"<1>1 2026-01-02T25:04:05Z h a - - - m", "its time is none"),
    ],
)
def test_what_is_no_line_is_refused(line, told):
    """Pass: with the reason, and the lines beside it come."""
    good = b"<13>good"
    found = read(good, line, good)
    assert told in found[1]
    assert found[0] == found[2]


def test_random_bytes_end_nothing():
    """A hundred thousand, of random bytes and of parts of lines. Pass: rows or reasons, quickly."""
    noise = random.Random(9)
    parts = [
        b"<1>",
        b"1 ",
        b"- ",
        b"[a",
        b' b="',
        b'"]',
        b"\\",
        b"Jan  1 00:00:00 ",
        b"x: ",
        b"\xff",
    ]
    made = [
        noise.randbytes(30) if n % 2 else b"".join(noise.choices(parts, k=10))
        for n in range(100_000)
    ]
    arrays, reasons = SyslogValues().read(pa.array(made, pa.binary()))
    assert len(arrays[0]) == len(reasons) == 100_000
