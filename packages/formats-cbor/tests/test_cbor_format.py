"""Values of each type, exactly or not at all; what is written is read; bytes that do no harm."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import cbor2
import pyarrow as pa
import pytest
from mainstem.builtin.decode import Decode
from mainstem.builtin.decoding import opened
from mainstem.registry import Registry
from mainstem_testkit import MapFormatSuite

AT = datetime(2024, 2, 29, 1, 2, 3, 456789, UTC)


def packed(value):
    return cbor2.dumps(value)


def read(values, schema, **more):
    given = {"format": "cbor", "schema": schema, **more}
    options = Decode.options_for(given, Registry().component).model_validate(given)
    decoding = Decode(options).decoding()
    names = [column.name for column in decoding.columns]
    found = opened(decoding)(pa.array(values, pa.binary())).to_pylist()
    rows = [{name: row[f"c{n}"] for n, name in enumerate(names)} for row in found]
    return rows, [row["reason"] for row in found]


class TestCbor(MapFormatSuite):
    """The standard tests."""

    use = "cbor"

    def packed(self, value):
        return packed(value)

    def bad(self):
        return [*super().bad(), b"\xc1" * 9]

    def unpacked(self, data):
        return cbor2.loads(data)


def test_what_cbor_has_beside_is_taken():
    """Pass: decimal fractions, large integers, dates, times of both tags."""
    values = [
        cbor2.dumps({"a": Decimal("1.50"), "b": 2**70, "c": AT}),
        cbor2.dumps({"a": Decimal("NaN"), "b": 1, "c": AT}),
        b"\xa1\x61\x63\xc1\x1a\x51\x4b\x67\xb0", b"\xa1\x61\x64\xd9\x03\xec\x6a2024-02-29",
    ]  # fmt: skip
    rows, reasons = read(values, "a DECIMAL(4,2), b DECIMAL(38,0), c TIMESTAMP, d DATE")
    assert rows[0] == {"a": Decimal("1.50"), "b": Decimal(2**70), "c": AT, "d": None}
    assert reasons == [None, "a is no DECIMAL(4,2)", None, None]
    assert rows[2]["c"] == datetime(2013, 3, 21, 20, 4, tzinfo=UTC)
    assert rows[3]["d"] == date(2024, 2, 29)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (packed({"a": 1}) + b"\1", "more bytes"),
        (b"\x81" * 100_000, "deep"),
        (b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff", "not CBOR"),
        (b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff", "not CBOR"),
        (b"\xa1\x61\x61\xc0\x61x", "not CBOR"),
        (b"\xa1\x61\x61\x61\xff", "not CBOR"),
        (b"\xd8\x1c\x81\xd8\x1d\x00", "it would take more"),
        (b"\xa1\x61\x61\xf7", "a is no INT"),
    ],
)
def test_bytes_that_are_no_value_are_refused(value, told):
    """Pass: with the reason; of one that is in itself too."""
    _, (reason,) = read([value], "a INT")
    assert told in reason or (told == "deep" and "not CBOR" in reason)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({1: "x"}, "is no VARIANT: JSON has no such value"),
        ({"b": {True: 1}}, "is no VARIANT: JSON has no such value"),
        ({"b": cbor2.CBORTag(12345, "q")}, "is no VARIANT: JSON has no such value"),
        ({"b": {"p", "q"}}, "is no VARIANT: JSON has no such value"),
        ({"b": 2**200 + 1}, "can't hold"),
        ({"b": 10**5000}, "is no VARIANT: JSON has no such value"),
        ({10**5000: 1}, "is no VARIANT: JSON has no such value"),
        ({"b": [Decimal("1.50"), float("nan"), uuid.UUID(int=5), date(2024, 2, 29)]}, None),
    ],
)
def test_what_json_has_nothing_for_is_no_unknown_field(more, told):
    """Pass: refused, and never written as something else."""
    rows, (reason,) = read([cbor2.dumps({"a": 1, **more})], "a INT", unknown="rest")
    assert reason is None if told is None else told in reason
    if told is None:
        held = json.loads(rows[0]["rest"])["b"]
        assert held == ["1.50", "NaN", str(uuid.UUID(int=5)), "2024-02-29"]


def test_parts_that_are_there_again_unfold_nothing():
    """Pass: references to values and to strings, tenfold in each other, and in themselves."""
    shared = [1] * 10
    for _ in range(9):
        shared = [shared] * 10
    long = ["x" * 60_000] * 2000
    itself = []
    itself.append(itself)
    values = [
        cbor2.dumps({"a": shared}, value_sharing=True), cbor2.dumps({"a": itself}, value_sharing=True),
        cbor2.dumps({"a": long}, string_referencing=True), cbor2.dumps({"a": ["x"] * 3}, string_referencing=True),
    ]  # fmt: skip
    assert max(map(len, values)) < 100_000
    for schema, more in (("a VARIANT", {}), ("b INT", {"unknown": "rest"})):
        _, reasons = read(values, schema, **more)
        assert [reason is None for reason in reasons] == [False, False, False, True]


def test_texts_of_times_that_are_too_fine_are_refused():
    """Pass: in any length of head; zeros behind microseconds are none, and other bytes are no time."""
    fine, zeros = "2024-01-01T00:00:00.123456789Z", "2024-01-01T00:00:00.123456000Z"
    long = "2024-01-01T00:00:00.1234567+00:00"
    values = [cbor2.dumps({"a": cbor2.CBORTag(0, each)}) for each in (fine, zeros, long)]
    rows, reasons = read([*values, cbor2.dumps({"a": "x", "b": f"{fine}"})], "a TIMESTAMP")
    assert reasons[:3] == [
        "a time is finer than microseconds",
        None,
        "a time is finer than microseconds",
    ]
    assert rows[1]["a"] == datetime(2024, 1, 1, 0, 0, 0, 123456, UTC)
    assert reasons[3] == "a is no TIMESTAMP"


def test_texts_of_times_are_looked_at_wherever_they_stand():
    """Pass: with any head of tag and text, and in parts; what is inside bytes is bytes."""
    text = b"2024-01-01T00:00:00.1234567Z"
    heads = [b"\xc0\x79\x00" + bytes([len(text)]), b"\xd8\x00\x78" + bytes([len(text)])]
    values = [b"\xa1\x61a" + head + text for head in heads]
    values += [
        b"\xa1\x61a\xc0\x7f\x6a" + text[:10] + bytes([0x60 + len(text) - 10]) + text[10:] + b"\xff"
    ]
    assert read(values, "a TIMESTAMP")[1] == ["a time is finer than microseconds"] * 3
    inside = b"\xc0\x78" + bytes([len(text)]) + text
    assert read([cbor2.dumps({"a": inside})], "a BINARY") == ([{"a": inside}], [None])


def test_numbers_by_exponents_are_exact_or_refused():
    """Pass: tags 4 and 5 with more digits than the library rounds to; one that no digits end."""
    whole = 12345678901234567890123456789012345
    values = [
        cbor2.dumps({"a": cbor2.CBORTag(tag, [exponent, whole])})
        for tag, exponent in ((5, -1), (4, -2), (5, -9000))
    ]
    rows, reasons = read(values, "a DECIMAL(38,2)")
    assert [row["a"] for row in rows] == [
        Decimal("6172839450617283945061728394506172.50"),
        Decimal("123456789012345678901234567890123.45"),
        None,
    ]
    assert [reason is None for reason in reasons] == [True, True, False]


def test_times_at_the_ends_of_the_calendar_are_told():
    """Pass: in a zone in which they are beyond its years, and a number too large for a time."""
    ends = [
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-5))),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
    ]
    values = [cbor2.dumps({"at": at}) for at in (*ends, AT)]
    rows, reasons = read(values, "at TIMESTAMP")
    assert [reason is None for reason in reasons] == [False, False, True]
    assert rows[2]["at"] == AT
    assert None not in read(values[:2], "b INT", unknown="rest")[1]
    huge = cbor2.dumps({"at": 10**309})
    assert read([huge], "at TIMESTAMP", times={"unit": "ms"})[1] == ["at is no TIMESTAMP"]
