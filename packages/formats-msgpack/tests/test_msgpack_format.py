"""Values of each type, exactly or not at all; what is written is read; bytes that do no harm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgpack
import msgspec
import pyarrow as pa
import pytest
from mainstem.builtin.decode import Decode
from mainstem.builtin.decoding import opened
from mainstem.registry import Registry
from mainstem_testkit import MapFormatSuite

AT = datetime(2024, 2, 29, 1, 2, 3, 456789, UTC)


def packed(value):
    return msgpack.packb(value)


def read(values, schema, **more):
    given = {"format": "msgpack", "schema": schema, **more}
    options = Decode.options_for(given, Registry().component).model_validate(given)
    decoding = Decode(options).decoding()
    names = [column.name for column in decoding.columns]
    found = opened(decoding)(pa.array(values, pa.binary())).to_pylist()
    rows = [{name: row[f"c{n}"] for n, name in enumerate(names)} for row in found]
    return rows, [row["reason"] for row in found]


class TestMsgpack(MapFormatSuite):
    """The standard tests."""

    use = "msgpack"
    instant = msgpack.Timestamp(1_709_168_523, 456_789_000)

    def packed(self, value):
        return packed(value)

    def bad(self):
        return [*super().bad(), b"\xc1" * 9]

    def unpacked(self, data):
        return msgpack.unpackb(data)


class TestByMsgspec(MapFormatSuite):
    """The same with another implementation, which writes what is read and reads what is written."""

    use = "msgpack"

    def packed(self, value):
        return msgspec.msgpack.encode(value)

    def unpacked(self, data):
        return msgspec.msgpack.decode(data)


def test_times_are_exact():
    """Pass: of each size; finer than microseconds, and beyond the years of columns, refused."""
    times = [
        msgpack.Timestamp(1, 0),
        msgpack.Timestamp(-1, 999_999_000),
        msgpack.Timestamp(1, 1),
        msgpack.Timestamp(2**40, 0),
    ]
    rows, reasons = read([packed({"a": each}) for each in times], "a TIMESTAMP")
    start = datetime(1970, 1, 1, tzinfo=UTC)
    assert [row["a"] for row in rows[:2]] == [
        start + timedelta(seconds=1),
        start - timedelta(microseconds=1),
    ]
    assert reasons == [None, None, "a is finer than microseconds", reasons[3]]
    assert "years 1 to 9999" in reasons[3]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"\x82\xa1a\x01\xa1a\x02", "a key twice"),
        (b"\x81\xa1a\xa1\xff", "not UTF-8"),
        (packed({"a": 1}) + b"\1", "more bytes"),
        (b"\x91" * 100_000, "deep"),
        (b"\xdf\xff\xff\xff\xff", "not MessagePack"),
        (b"\xc1", "not MessagePack"),
        (b"\x81\x80\x01", "not MessagePack"),
        (packed({"a": msgpack.ExtType(5, b"x")}), "a is no INT"),
    ],
)
def test_bytes_that_are_no_value_are_refused(value, told):
    """Pass: with the reason."""
    _, (reason,) = read([value], "a INT")
    assert told in reason or (told == "deep" and reason == "not MessagePack")


def test_what_only_an_application_knows_is_no_value():
    """Pass: an extension is refused as a column and as an unknown field."""
    value = packed({"x": msgpack.ExtType(5, b"hi")})
    assert read([value], "x ARRAY<STRING>")[1] == ["x is no ARRAY<STRING>"]
    assert read([value], "b INT", unknown="rest")[1][0] is not None
    assert read([value], "b INT")[1] == [None]


def test_whole_numbers_are_floats_where_they_are_exact():
    """Pass: of FLOAT 24 bits, of DOUBLE 53."""
    values = [packed({"f": number}) for number in (2**24, 2**24 + 1, 2**53, 2**53 + 1)]
    for kind, wanted in (
        ("FLOAT", [True, False, True, False]),
        ("DOUBLE", [True, True, True, False]),
    ):
        assert [reason is None for reason in read(values, f"f {kind}")[1]] == wanted
