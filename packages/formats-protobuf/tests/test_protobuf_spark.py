"""Through Spark and back, and there and back by Java's Protocol Buffers."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest
from mainstem import Events, Inputs
from mainstem.builtin.decode import Decode
from mainstem.builtin.encode import Encode
from mainstem.columns import read_columns
from mainstem.registry import Registry
from mainstem_formats_protobuf.compiler import load
from mainstem_testkit.java import find_java
from mainstem_testkit.server import fetched

HERE = Path(__file__).parent
LINE = "STRUCT<article: STRING, count: INT, prices: ARRAY<DOUBLE>, kind: STRING>"
ROWS = f"""
    SELECT 0.1D AS a_double, 1 AS an_int32, CAST(18446744073709551615 AS DECIMAL(20,0)) AS a_uint64,
      -1L AS a_sint64, true AS a_bool, 'grüße' AS a_string, X'FF00' AS some_bytes, 'KIND_NEW' AS kind,
      CAST(NULL AS INT) AS maybe, array(1, -1) AS numbers, array('a', '') AS words,
      named_struct('article', 'pen', 'count', 2, 'prices', array(0.5D), 'kind', 'KIND_BELOW') AS line,
      array(named_struct('article', '', 'count', 0, 'prices', CAST(array() AS ARRAY<DOUBLE>),
        'kind', 'KIND_NONE')) AS lines,
      map('x', -1L) AS counts, CAST(NULL AS STRING) AS mail, 0L AS phone,
      TIMESTAMP '2024-02-29 01:02:03.456789Z' AS at, 5L AS wrapped
    UNION ALL SELECT -1e300D, -2, CAST(0 AS DECIMAL(20,0)), 9L, false, '', X'', 'KIND_NONE', 0,
      CAST(array() AS ARRAY<INT>), CAST(array() AS ARRAY<STRING>), CAST(NULL AS {LINE}),
      CAST(array() AS ARRAY<{LINE}>), CAST(map() AS MAP<STRING, BIGINT>), 'm', NULL,
      TIMESTAMP '0001-01-01 00:00:00Z', NULL
"""


class Context:
    node = "row"
    wanted = frozenset(["rejected"])


def operator(kind, **more):
    given = {
        "format": "protobuf", "schema_file": str(HERE / "order.proto"), "message": "shop.Order", **more
    }  # fmt: skip
    return kind(kind.options_for(given, Registry().component).model_validate(given))


def by_java(folder, values):
    """Return what Java reads in messages, as text, and what it writes again."""
    (folder / "set").write_bytes(load(HERE / "order.proto"))
    (jar,) = fetched("protobuf", called="Java's Protocol Buffers").glob("protobuf-java-*.jar")
    command = [
        find_java(),
        "-cp",
        str(jar),
        str(HERE / "Again.java"),
        "set",
        "order.proto",
        "Order",
    ]
    told = b"\n".join(map(base64.b64encode, values))
    done = subprocess.run(command, input=told, capture_output=True, cwd=folder, check=True)
    pairs = (line.split() for line in done.stdout.splitlines())
    return [(base64.b64decode(text).decode(), base64.b64decode(again)) for text, again in pairs]


@pytest.mark.in_turn
def test_there_and_back_and_through_java(spark, tmp_path):
    """Pass: what is written is read as it was, here and by Java; what that writes is the same bytes."""
    frame = spark.sql(ROWS)
    shape = Events(read_columns(", ".join(f"{n} {t}" for n, t in frame.dtypes)))
    encode = operator(Encode)
    messages = encode.shape(Inputs({"input": shape}))
    sent = encode.apply(Inputs({"input": frame}), Context())
    values = [bytes(row["value"]) for row in sent.collect()]
    told = by_java(tmp_path, values)
    assert "an_int32: 1" in told[0][0]
    assert "a_uint64: 18446744073709551615" in told[0][0]
    assert "kind: KIND_BELOW" in told[0][0]
    assert [again for _, again in told] == values
    decode = operator(Decode)
    decode.shape(Inputs({"input": messages}))
    read = decode.apply(Inputs({"input": sent}), Context())
    assert [row["_output"] for row in read.select("_output").collect()] == [None, None]
    # Before the years that Python's clock of this machine knows, times are compared as texts.
    texts = [f"CAST(at AS STRING) AS {name}" if name == "at" else name for name in frame.columns]
    found, wanted = (each.selectExpr(texts).orderBy("an_int32").collect() for each in (read, frame))
    assert found == wanted


def test_structs_are_variants(spark):
    """Pass: what a Struct holds is asked for by path; what none can be refuses the row."""
    decode = operator(Decode, message="shop.Loose")
    number = b"\x11\0\0\0\0\0\0\xf8\x3f"  # a Value of 1.5
    good = b"\x0a\x10\x0a\x0e\x0a\x01a\x12\x09" + number
    frame = spark.createDataFrame([(bytearray(good),), (bytearray(good[:-1]),)], "value BINARY")
    rows = decode.apply(Inputs({"input": frame}), Context())
    found = rows.selectExpr("_output", "variant_get(object, '$.a', 'double') AS a").collect()
    assert {row["_output"]: row["a"] for row in found} == {None: 1.5, "rejected": None}


@pytest.mark.parametrize("missing", [[], ["mail"]])
def test_a_row_that_is_no_message_is_refused(spark, missing):
    """Pass: at `rejected`, with why; columns that are not given are absent."""
    frame = (
        spark.sql(ROWS)
        .drop(*missing)
        .selectExpr("* EXCEPT (a_bool)", "IF(a_bool, true, NULL) AS a_bool")
    )
    encode = operator(Encode, on_error="reject")
    rows = encode.apply(Inputs({"input": frame}), Context()).collect()
    (refused,) = (row for row in rows if row["_output"] == "rejected")
    assert refused["_rejected"]["reason"] == "a_bool is null"
    assert json.loads(refused["_rejected"]["payload"])["an_int32"] == -2
