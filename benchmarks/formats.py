"""Rows per second of `decode` with each format, beside json on the same rows and pandas UDFs.

A UDF is what one would write by hand with the format's library; it checks nothing. Goals: >= 0.8 of json,
and ahead of the UDF.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
from decode import PLAIN, ROUNDS, ROWS, Context, seconds, session
from mainstem.builtin.decode import Decode
from mainstem.builtin.encode import Encode
from mainstem.contracts.shapes import Inputs
from mainstem.registry import Registry
from mainstem_formats_protobuf.compiler import load
from pyspark.sql import DataFrame
from pyspark.sql.functions import pandas_udf

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": ["null", "string"]},
        {"name": "city", "type": ["null", "string"]},
        {"name": "placed", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "cents", "type": ["null", "long"]},
    ],
}
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  optional string order_id = 1;
  optional string city = 2;
  google.protobuf.Timestamp placed = 3;
  optional int64 cents = 4;
}
"""


OBJECT = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "maxLength": 40},
        "city": {"type": "string"},
        "placed": {"type": "string", "format": "date-time"},
        "cents": {"type": "integer", "minimum": 0},
    },
}


def operator(kind: Any, given: dict[str, Any], frame: DataFrame) -> DataFrame:
    """Return what `decode` or `encode` makes of a frame."""
    options: Any = kind.options_for(given, Registry().component).model_validate(given)
    made: DataFrame = kind(options).apply(Inputs({"input": frame}), Context())
    return made


def avro_by_hand() -> Callable[[pd.Series], pd.DataFrame]:
    """Return what a pandas UDF with fastavro does."""
    text = json.dumps(AVRO)

    def read(values: pd.Series) -> pd.DataFrame:
        from fastavro import parse_schema, schemaless_reader

        schema = parse_schema(json.loads(text))
        return pd.DataFrame([schemaless_reader(BytesIO(value), schema, None) for value in values])

    return read


def protobuf_by_hand(descriptors: bytes) -> Callable[[pd.Series], pd.DataFrame]:
    """Return what a pandas UDF with Google's library does."""

    def read(values: pd.Series) -> pd.DataFrame:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
            pool.Add(file)
        kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))
        rows = []
        for value in values:
            order = kind.FromString(value)
            placed = order.placed.seconds * 1_000_000_000 + order.placed.nanos
            rows.append((order.order_id, order.city, placed, order.cents))
        made = pd.DataFrame(rows, columns=["order_id", "city", "placed", "cents"])
        made["placed"] = pd.to_datetime(made["placed"])
        return made

    return read


TYPED = {"field": "kind", "schemas": {"order": PLAIN, "other": "a INT"}}
#: How many rows a value has that is a table.
TABLE = 1000


def tables(rows: DataFrame) -> dict[str, list[bytes]]:
    """Return the rows as values that are tables, by format."""
    import pyarrow as pa
    from fastavro import parse_schema, writer
    from pyarrow import parquet

    found: dict[str, list[bytes]] = {"parquet": [], "arrow": [], "avro, container": []}
    schema = parse_schema(AVRO)
    for batch in rows.toArrow().to_batches(max_chunksize=TABLE):
        table, sink = pa.Table.from_batches([batch]), pa.BufferOutputStream()
        parquet.write_table(table, sink)
        found["parquet"].append(sink.getvalue().to_pybytes())
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        found["arrow"].append(sink.getvalue().to_pybytes())
        file = BytesIO()
        writer(file, schema, table.to_pylist(), codec="deflate")
        found["avro, container"].append(file.getvalue())
    return found


def main() -> None:
    """Time all in turn, and print the ratios."""
    spark = session()
    rows = spark.range(ROWS).selectExpr(
        "concat('o', id) AS order_id",
        "'Oslo' AS city",
        "timestamp_seconds(1700000000 + id) AS placed",
        "id * 7 AS cents",
    )
    with tempfile.TemporaryDirectory() as folder:
        avro, proto = Path(folder, "order.avsc"), Path(folder, "order.proto")
        checked = Path(folder, "order.json")
        checked.write_text(json.dumps(OBJECT))
        avro.write_text(json.dumps(AVRO))
        proto.write_text(PROTO)
        given: dict[str, dict[str, Any]] = {
            "json": {"format": "json"},
            "avro": {"format": "avro", "schema_file": str(avro)},
            "protobuf": {"format": "protobuf", "schema_file": str(proto), "message": "Order"},
        }
        written = {**given, "msgpack": {"format": "msgpack"}, "cbor": {"format": "cbor"}}
        declared = {"schema": PLAIN}
        read = {
            **{name: {**told, **declared} if "avro" not in name and "proto" not in name else told
               for name, told in written.items()},
            "json-schema": {"format": "json-schema", "schema_file": str(checked)},
            "json, by type": {"format": "json", "by_type": TYPED},
            "xml": {"format": "xml", **declared},
            "parquet": {"format": "parquet", **declared},
            "arrow": {"format": "arrow", **declared},
            "avro, container": {"format": "avro", "framing": "container", "schema_file": str(avro)},
        }  # fmt: skip
        by_hand = {"avro": avro_by_hand(), "protobuf": protobuf_by_hand(load(proto))}
        frames = {}
        for name, options in written.items():
            frames[name] = operator(Encode, options, rows).select("value")
        frames["json-schema"] = frames["json"]
        typed = operator(Encode, {"format": "json"}, rows.selectExpr("'order' AS kind", "*"))
        frames["json, by type"] = typed.select("value")
        tags = ", ".join(
            f"'<{name}>', CAST({name} AS STRING), '</{name}>'" for name in rows.columns
        )
        frames["xml"] = rows.selectExpr(f"CAST(concat('<o>', {tags}, '</o>') AS BINARY) AS value")
        for name, held in tables(rows).items():
            several = [(bytearray(value), str(n).encode()) for n, value in enumerate(held)]
            frames[name] = spark.createDataFrame(several, "value BINARY, _id BINARY")
        for name, frame in frames.items():
            frames[name] = frame.coalesce(2).cache()
            frames[name].count()

        def decoded(name: str) -> DataFrame:
            made = operator(Decode, read[name], frames[name])
            if name == "json, by type":
                return made.where("_output = 'order'").drop("_output", "_rejected")
            return made.where("_output IS NULL").drop("_output", "_rejected")

        def udf(name: str) -> DataFrame:
            read = pandas_udf(by_hand[name], PLAIN)  # type: ignore[call-overload]
            return frames[name].select(read("value").alias("p")).select("p.*")

        ways: dict[str, Callable[[], DataFrame]] = {
            **{name: lambda name=name: decoded(name) for name in read},  # type: ignore[misc]
            **{f"{name}, UDF": lambda name=name: udf(name) for name in by_hand},  # type: ignore[misc]
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(ROUNDS + 1):
            for name, way in ways.items():
                taken = seconds(way())
                if number:  # the first is for warming up
                    found[name].append(ROWS / taken)
        rates = {name: median(each) for name, each in found.items()}
        for name, rate in rates.items():
            told = f"{rate / rates['json']:.2f} of json"
            if f"{name}, UDF" in rates:
                told += f", {rate / rates[f'{name}, UDF']:.2f} of a UDF"
            print(f"{name}: {rate:,.0f} rows/s; {told}")
    spark.stop()


if __name__ == "__main__":
    main()
