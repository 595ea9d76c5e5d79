"""XML as columns: what Spark's own reader makes of the same, reasons, and what would harm."""

from __future__ import annotations

import random
import time
import tracemalloc
from datetime import UTC, datetime
from decimal import Decimal
from xml.sax.saxutils import escape

import pyarrow as pa
import pytest
from mainstem.builtin.formats.xml import Xml, XmlDecoder
from mainstem.columns import read_columns
from mainstem.errors import OptionError
from mainstem.formats.rules import Rules
from mainstem.formats.xml_values import XmlValues

SCHEMA = (
    "id BIGINT, name STRING, price DECIMAL(12,3), at TIMESTAMP, tags ARRAY<STRING>, "
    "buyer STRUCT<name: STRING, city: STRUCT<zip: INT, value: STRING>>, sizes MAP<STRING, DOUBLE>"
)


def read(values, schema=SCHEMA, **more):
    made = XmlValues(read_columns(schema), **more)
    values = pa.array(values, pa.binary())
    if "row" in more:
        found = made.read_rows(values, 10_000)
        arrays, reasons = found.rows, found.reasons
    else:
        arrays, reasons = made.read(values)
    return list(zip(*(each.to_pylist() for each in arrays), strict=True)), reasons


def test_elements_and_attributes_are_columns():
    """Pass: nested ones, lists of one or several, texts beside attributes, nulls said in words."""
    value = b"""<order id="1" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
      <name>a &amp; b</name><price> 1.5 </price><at>2024-02-29T01:02:03Z</at><tags>x</tags><tags/><tags> y </tags>
      <buyer name="Ann"><city zip="123">Oslo</city></buyer><sizes a="1"><b>2.5</b><c/></sizes></order>"""
    (row, gone), reasons = read([value, value.replace(b'zip="123"', b'xsi:nil="true" zip="1"')])
    assert reasons == [None, None]
    assert row == (
        1, "a & b", Decimal("1.500"), datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC), ["x", "", " y "],
        {"name": "Ann", "city": {"zip": 123, "value": "Oslo"}}, [("a", 1.0), ("b", 2.5), ("c", None)],
    )  # fmt: skip
    assert gone[5] == {"name": "Ann", "city": None}


@pytest.mark.parametrize(
    ("inside", "told"),
    [
        ("<id>x</id><price>1.2345</price>", "id is no BIGINT, price is no DECIMAL(12,3)"),
        ("<name>a</name><name>b</name>", "name is there 2 times"),
        ("<buyer><city zip='x'/></buyer>", "buyer.city.zip is no INT"),
        ("<buyer><name>a</name><name/></buyer>", "buyer.name is there 2 times"),
        ("<name>a<b/></name>", "name is no STRING: there are elements in it"),
        ("<sizes><a>x</a></sizes>", "sizes.a is no DOUBLE"),
        ("<id>1", "not XML at line 1, character "),
        ("<a xmlns:b='c' b:x='1' x='2'/><id>9</id>", None),
        ("<buyer>Ann</buyer>", "buyer is no STRUCT: it is a text"),
        ("<sizes>5</sizes>", "sizes is no MAP: it is a text"),
        ("<buyer><city value='a'>b</city></buyer>", "buyer.city.value is there 2 times"),
        ("<price>1e-99999999999999999999999</price>", "price is no DECIMAL(12,3)"),
        ("<at>1e-99999999999999999999999</at>", "at is no TIMESTAMP"),
        ("some text", None),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(inside, told):
    """Pass: and never with what stands there."""
    _, (reason,) = read([f"<order>{inside}</order>".encode()], rules=Rules(unit="s"))
    assert reason is None if told is None else reason.startswith(told)


def test_text_that_no_field_has_is_extra():
    """Pass: left out, or a reason to refuse the row."""
    value = [b"<a id='1'> <b/>text</a>", b"<a id='1'>\n <id2/> </a>"]
    assert read(value, "id INT")[1] == [None, None]
    assert read(value[:1], "id INT, b STRING", extra=False)[1] == ["unknown: a text"]
    assert read(value[:1], "id INT, b STRING, value STRING", extra=False) == (
        [(1, "", "text")],
        [None],
    )


def test_rows_of_a_value_are_all_read_or_none():
    """Pass: at any depth, outer ones alone; one that is wrong refuses them all, and so do too many."""
    two = b"<a><r id='1'><r id='5'/></r><b><r><id>2</id></r></b></a>"
    rows, reasons = read([two, b"<a><r id='1'/><r id='x'/></a>", None, b"<a/>"], "id INT", row="r")
    assert rows == [(1,), (2,)]
    assert reasons == [None, "id is no INT", "the value is null", None]
    many = b"<a>" + b"<r/>" * 2000 + b"</a>"
    assert read([many], "id INT", row="r")[1] == ["its rows take more than 10000 bytes"]
    long = b"<a><r>" + b"x" * 20_000 + b"</r></a>"
    assert read([long], "id INT", row="r")[1] == ["its rows take more than 10000 bytes"]


def test_numbers_of_times_count_what_is_said():
    """Pass: a bare number is a time only then."""
    told = "at TIMESTAMP"
    assert read([b"<a><at>5</at></a>"], told)[1] == ["at is no TIMESTAMP"]
    ((at,),), _ = read([b"<a><at>5</at></a>"], told, rules=Rules(unit="s"))
    assert at == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "schema",
    ["a VARIANT", "a ARRAY<ARRAY<INT>>", "a MAP<STRUCT<b: INT>, INT>", "a INTERVAL DAY TO SECOND"],
)
def test_types_of_which_elements_are_no_values_are_told(schema):
    """Pass: before anything runs."""
    options = XmlDecoder.options_model()()
    with pytest.raises(OptionError, match="xml has no values of type"):
        Xml.decoder(options).columns(read_columns(schema))


def test_nothing_unfolds():
    """Pass: entities in entities, files and addresses are refused; ten thousand elements in each other end nothing."""
    laughs = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10 if n else 'ha'}'>" for n in range(10))
    values = [
        f"<!DOCTYPE a [{laughs}]><a><name>&a9;</name></a>".encode(),
        b"<!DOCTYPE a [<!ENTITY f SYSTEM 'file:///etc/passwd'>]><a><name>&f;</name></a>",
        "<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/a.dtd'><a/>".encode("utf-16-le"),
        b"<a>" * 10_000 + b"</a>" * 10_000,
        b"<a>" * 10_000,
    ]
    tracemalloc.start()
    began = time.process_time()
    _, reasons = read(values, "name STRING NOT NULL")
    assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    tracemalloc.stop()
    assert reasons[:3] == ["not XML as it is read: it has a document type"] * 3
    assert reasons[3] == "name is null"
    assert reasons[4].startswith("not XML at line 1")
    assert time.process_time() - began < 60
    assert read([b"<a><r>" * 3000 + b"</r></a>" * 3000], "id INT", row="r")[1] == [None]


def test_odd_bytes_are_refused_or_read():
    """Pass: cut, changed and random documents end nothing."""
    pick = random.Random(7)
    good = (
        b"<order id='1'><name>a</name><tags>x</tags><buyer><city zip='1'>b</city></buyer></order>"
    )
    values = []
    for _ in range(3000):
        value = bytearray(good)
        for _ in range(pick.randint(1, 4)):
            at = pick.randrange(len(value) + 1)
            value[at : at + pick.randint(0, 3)] = pick.randbytes(pick.randint(0, 3))
        values.append(bytes(value))
    rows, reasons = read([*values, *(pick.randbytes(pick.randint(0, 40)) for _ in range(1000))])
    assert len(rows) == len(reasons) == 4000
    assert any(reasons)


def test_sparks_own_reader_makes_the_same(spark):
    """Pass: random rows, written as elements, read by both."""
    pick = random.Random(11)
    letters = "aé<&>'\" \u4e2d"
    values = []
    for number in range(200):
        name = "".join(pick.choice(letters) for _ in range(pick.randint(1, 6))).strip() or "x"
        tags = "".join(f"<tags>{pick.randint(0, 9)}</tags>" for _ in range(pick.randint(1, 3)))
        price = f"{pick.randint(-9999, 9999)}.{pick.randint(0, 999):03}"
        values.append(
            f"<order><id>{number}</id><name>{escape(name)}</name><price>{price}</price><tags>t</tags>{tags}"
            f"<buyer><name>n{number}</name><city><zip>{number}</zip></city></buyer></order>"
        )
    schema = (
        "id BIGINT, name STRING, price DECIMAL(12,3), tags ARRAY<STRING>, "
        "buyer STRUCT<name: STRING, city: STRUCT<zip: INT>>"
    )
    rows, reasons = read([value.encode() for value in values], schema)
    assert reasons == [None] * 200
    frame = spark.createDataFrame([(value,) for value in values], "text STRING").coalesce(1)
    theirs = frame.selectExpr(
        f"from_xml(text, '{schema}', map('ignoreSurroundingSpaces', 'false')) AS x"
    )
    for ours, row in zip(rows, theirs.collect(), strict=True):
        assert ours == tuple(row["x"].asDict(recursive=True).values())
