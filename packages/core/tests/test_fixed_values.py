"""Records of fixed places: every type exactly, whatever its bytes; what does not fit is refused."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem.columns import read_columns
from mainstem.errors import DocumentError
from mainstem.formats.fixed_values import FixedValues, Place
from mainstem.plan.build import make_plan


def read(schema, places, values, most=None):
    """Return rows, with a reason for those that are refused."""
    made = FixedValues(read_columns(schema), places, most)
    arrays, reasons = made.read(pa.array(values, pa.binary()))
    rows = zip(*(array.to_pylist() for array in arrays), strict=True)
    return [reason or row for row, reason in zip(rows, reasons, strict=True)]


CODES = {
    ("int", 1): "b", ("int", 2): "h", ("int", 4): "i", ("int", 8): "q",
    ("uint", 1): "B", ("uint", 2): "H", ("uint", 4): "I", ("uint", 8): "Q",
}  # fmt: skip


@pytest.mark.parametrize("big", [True, False])
@pytest.mark.parametrize("code", CODES)
@given(data=st.data())
def test_whole_numbers_are_exact_or_refused(code, big, data):
    """Pass: of all sizes, orders and values; what has more than 63 bits is refused."""
    kind, size = code
    low, high = (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1)
    if kind == "uint":
        low, high = 0, 2 ** (8 * size) - 1
    numbers = data.draw(st.lists(st.integers(low, high), min_size=1, max_size=20))
    order = ">" if big else "<"
    values = [b"??" + struct.pack(order + CODES[code], n) for n in numbers]
    found = read("n BIGINT", [Place(kind, 2, size, big)], values)
    assert found == [(n,) if n < 2**63 else "n is no BIGINT" for n in numbers]


@given(st.lists(st.integers(-(2**47), 2**47 - 1), min_size=1), st.booleans())
def test_numbers_of_six_bytes(numbers, big):
    """Pass: as those of other sizes."""
    order = "big" if big else "little"
    values = [n.to_bytes(6, order, signed=True) for n in numbers]
    assert read("n BIGINT", [Place("int", 0, 6, big)], values) == [(n,) for n in numbers]


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.integers(0, 6),
    st.sampled_from(["DECIMAL(38,6)", "DECIMAL(10,4)", "DECIMAL(5,0)"]),
)
def test_decimals_are_exact_or_refused(numbers, scale, kind):
    """Pass: nothing is rounded, and nothing cut."""
    precision, kept = map(int, kind[8:-1].split(","))
    values = [struct.pack(">q", n) for n in numbers]
    found = read(f"n {kind}", [Place("int", 0, 8, scale=scale)], values)
    for row, number in zip(found, numbers, strict=True):
        exact = Decimal(number).scaleb(-scale)
        fits = exact == round(exact, kept) and abs(exact) < 10 ** (precision - kept)
        assert row == ((exact,) if fits else f"n is no DECIMAL({precision},{kept})")


def test_texts_floats_flags_and_times():
    """Pass: blanks and zeros at a text's end are none of it; bytes stay as they are; times by their unit."""
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    record = struct.pack(">8s4sdfBqq", b"AB C  \0\0", b"\0\xff\0\0", 1.5, 0.25, 1, micros * 1000, 3)
    schema = "t STRING, b BINARY, d DOUBLE, f FLOAT, y BOOLEAN, at TIMESTAMP, s TIMESTAMP"
    places = [
        Place("text", 0, 8), Place("bytes", 8, 4), Place("float", 12, 8), Place("float", 20, 4),
        Place("uint", 24, 1), Place("int", 25, 8, unit="ns"), Place("int", 33, 8, unit="s"),
    ]  # fmt: skip
    (row,) = read(schema, places, [record])
    then = datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)
    assert row == ("AB C", b"\0\xff\0\0", 1.5, 0.25, True, at, then)


@pytest.mark.parametrize(
    ("schema", "place", "code", "number", "found"),
    [
        ("n TIMESTAMP", Place("int", 0, 8, unit="ns"), ">q", 1_999, "n is no TIMESTAMP"),
        ("n TIMESTAMP", Place("int", 0, 8, unit="ns"), ">q", -1, "n is no TIMESTAMP"),
        ("n BOOLEAN", Place("uint", 0, 1), "B", 2, "n is no BOOLEAN"),
        ("n BOOLEAN", Place("int", 0, 8), ">q", -1, "n is no BOOLEAN"),
        ("n BOOLEAN", Place("uint", 0, 1), "B", 0, (False,)),
        ("n FLOAT", Place("float", 0, 8), ">d", 1e300, "n is no FLOAT"),
        ("n FLOAT", Place("float", 0, 8), ">d", float("-inf"), (float("-inf"),)),
        ("n FLOAT", Place("float", 0, 8), ">d", 0.1, (0.10000000149011612,)),
        ("n DOUBLE", Place("int", 0, 8), ">q", 2**53 + 1, (float(2**53),)),
        ("n DOUBLE", Place("uint", 0, 4, scale=4), ">I", 123_450, (12.345,)),
        (
            "n DOUBLE",
            Place("uint", 0, 8, scale=2),
            ">Q",
            4912931603392816429,
            (49129316033928164.29,),
        ),
        ("n DOUBLE", Place("uint", 0, 8, scale=2), ">Q", 2**64 - 1, (184467440737095516.15,)),
        ("n DOUBLE", Place("int", 0, 8, scale=25), ">q", -7, (-7e-25,)),
    ],
)
def test_times_and_flags_are_exact_and_floats_the_nearest(schema, place, code, number, found):
    """Pass: what is finer than microseconds, neither true nor false, or beyond all floats is refused."""
    assert read(schema, [place], [struct.pack(code, number)]) == [found]


def test_what_does_not_fit_is_refused_by_itself():
    """Pass: records that are too short or too long, numbers and times that a column can't hold, text that is none."""
    places = [Place("uint", 0, 4), Place("text", 4, 2)]
    values = [
        b"\0\0\0\1ab",
        b"\0\0\0",
        None,
        b"\xff\xff\xff\xffab",
        b"\0\0\0\2\xff\xfe",
        b"\0\0\0\3cd+++",
    ]
    assert read("n INT, t STRING", places, values, most=8) == [
        (1, "ab"),
        "it has 3 bytes, and a record has 6 to 8",
        "the value is null",
        "n is no INT",
        "t is no STRING",
        "it has 9 bytes, and a record has 6 to 8",
    ]
    far = [struct.pack(">Q", 2**62)]
    assert read("t TIMESTAMP", [Place("uint", 0, 8, unit="s")], far) == ["t is no TIMESTAMP"]
    assert read("n INT", [Place("int", 0, 4)], []) == []


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ({"schema": "a INT", "fields": {}}, "there is no field 'a'"),
        (
            {"schema": "a INT", "fields": {"b": {"at": 0, "type": "int8"}}},
            "no column of the schema",
        ),
        ({"schema": "a INT", "fields": {"a": {"at": 0, "type": "text"}}}, "size"),
        (
            {"schema": "a INT", "fields": {"a": {"at": 0, "type": "text", "size": 1}}},
            "can't hold text",
        ),
        (
            {"schema": "a INT", "fields": {"a": {"at": 0, "type": "int8", "scale": 2}}},
            "with a scale",
        ),
        ({"fields": {}}, "needs a `schema`"),
        ({"format": "json", "schema": "a INT", "length": 3}, "unknown key 'length'"),
        ({"format": "syslog", "schema": "a INT"}, "columns of its own"),
    ],
)
def test_wrong_options_are_told(given_, told):
    """Pass: when the document is planned."""
    decode = {"use": "decode", "from": "lines", "with": {"format": "fixed", **given_}}
    with pytest.raises(DocumentError, match=told):
        make_plan(
            {
                "pipeline": "p",
                "sources": {
                    "lines": {"use": "files", "with": {"path": "./in", "format": "message"}}
                },
                "operators": {"row": decode},
                "sinks": {"out": {"use": "console", "from": "row"}},
            }
        )


def test_whole_numbers_without_a_sign_are_decimals():
    """Pass: of 64 bits, as far as the column holds them; where places are cut, if they are zeros."""
    numbers = [2**63, 2**64 - 1, 10**19, 7, 0]
    values = [struct.pack(">Q", number) for number in numbers]
    place = Place("uint", 0, 8, True)
    assert read("n DECIMAL(20,0)", [place], values) == [(Decimal(n),) for n in numbers]
    found = read("n DECIMAL(19,0)", [place], values)
    assert found == [(Decimal(n),) if n < 10**19 else "n is no DECIMAL(19,0)" for n in numbers]
    scaled = Place("uint", 0, 8, True, scale=1)
    assert read("n DECIMAL(20,0)", [scaled], values) == [
        (Decimal(n // 10),) if n % 10 == 0 else "n is no DECIMAL(20,0)" for n in numbers
    ]
