"""Values of several types, an output of `decode` each, and values that hold many rows."""

from __future__ import annotations

import json
import sys
from importlib import import_module

import pyarrow as pa
import pytest
from mainstem import DocumentError, Events, Inputs, OptionError, PipelineError
from mainstem.builtin.decode import Decode
from mainstem.builtin.decoding import opened
from mainstem.contracts.shapes import MESSAGE_COLUMNS
from mainstem.discovery import Word, installed_words
from mainstem.plan import identity
from mainstem.plan.build import make_plan
from mainstem.plan.model import Stream
from mainstem.registry import Registry
from mainstem.run.runner import run
from pyarrow import parquet
from pyspark import cloudpickle

PLUGIN = '''
from dataclasses import dataclass

import pyarrow as pa
from mainstem import Decoder, Format, Options, hookimpl
from mainstem.columns import Column

KINDS = {"placed": "struct<id:bigint,city:string>", "paid": "struct<id:bigint,cents:bigint>"}


class NoOptions(Options):
    """None."""


@dataclass(frozen=True)
class Reader:
    def open(self):
        return read


def read(values):
    rows, reasons = [], []
    for value in values.to_pylist():
        kind, _, rest = value.decode().partition(" ")
        words = rest.split()
        row = {"placed": None, "paid": None}
        if kind == "placed":
            row[kind] = {"id": int(words[0]), "city": words[1]}
        elif kind == "paid":
            row[kind] = {"id": int(words[0]), "cents": int(words[1])}
        rows.append(row)
        reasons.append("no words" if kind == "bad" else None)
    structs = (
        pa.struct([("id", pa.int64()), ("city", pa.string())]),
        pa.struct([("id", pa.int64()), ("cents", pa.int64())]),
    )
    pairs = zip(("placed", "paid"), structs, strict=True)
    return [pa.array([row[name] for row in rows], kind) for name, kind in pairs], reasons


class WordsDecoder(Decoder):
    options: NoOptions

    def columns(self, schema):
        return [Column(name, kind) for name, kind in KINDS.items()]

    @property
    def types(self):
        return tuple(KINDS)

    def reader(self, schema):
        return Reader()


class Words(Format):
    """Words."""

    decoder = WordsDecoder


@hookimpl
def mainstem_formats():
    return {"words": Words}
'''


@pytest.fixture
def plan_of(tmp_path, monkeypatch):
    (tmp_path / "words_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    cloudpickle.register_pickle_by_value(import_module("words_plugin"))  # tasks have no such module
    registry = Registry([*installed_words(), Word("format", "words", "told", "1", "words_plugin")])
    (tmp_path / "in").mkdir()

    def sink(name, of):
        written = {"path": str(tmp_path / name), "format": "jsonlines"}
        return {"use": "files", "from": of, "with": written}

    def made(keep=None, sinks=()):
        source = {"path": str(tmp_path / "in"), "format": "message"}
        decode = {"format": "words", "keep": keep or {"line": "position"}}
        file = tmp_path / "pipeline.yaml"
        document = {
            "pipeline": "p",
            "trigger": {"available_now": True},
            "sources": {"lines": {"use": "files", "with": source}},
            "operators": {"event": {"use": "decode", "from": "lines", "with": decode}},
            "sinks": {name: sink(name, of) for name, of in sinks},
        }
        file.write_text(json.dumps(document))
        return make_plan(file, registry)

    yield made
    cloudpickle.unregister_pickle_by_value(sys.modules["words_plugin"])
    sys.modules.pop("words_plugin", None)


def rows(folder):
    files = [file for file in folder.rglob("*.json*") if file.name[0] not in "._"]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_each_type_comes_out_of_its_own_output(spark, plan_of, tmp_path):
    """Pass: fields and what is kept; others come out of the main one, what is wrong out of `rejected`."""
    lines = ["placed 1 Oslo", "paid 1 500", "cancelled 1", "bad", "placed 2 Bergen"]
    (tmp_path / "in/1.txt").write_text("\n".join(lines))
    sinks = {
        "places": "event.placed",
        "payments": "event.paid",
        "rest": "event",
        "bad": "event.rejected",
    }
    run(plan_of({"text": "CAST(value AS STRING)"}, sinks.items()))
    found = {name: rows(tmp_path / name) for name in sinks}
    assert sorted(found["places"], key=lambda row: row["id"]) == [
        {"id": 1, "city": "Oslo", "text": lines[0]},
        {"id": 2, "city": "Bergen", "text": lines[4]},
    ]
    assert found["payments"] == [{"id": 1, "cents": 500, "text": lines[1]}]
    assert found["rest"] == [{"text": "cancelled 1"}]
    assert [row["reason"] for row in found["bad"]] == ["no words"]


def test_a_refused_row_ends_the_run_though_types_alone_are_read(spark, plan_of, tmp_path):
    """Pass: as the plan says where nobody reads what is refused."""
    (tmp_path / "in/1.txt").write_text("placed 1 Oslo\nbad\n")
    with pytest.raises(PipelineError, match="nobody reads event.rejected"):
        run(plan_of(sinks=[("places", "event.placed")]))


def test_a_variant_that_is_none_refuses_its_row(spark):
    """Pass: within a type as where it stands alone."""
    made = of_json(schemas={"placed": "id BIGINT, body VARIANT"})
    values = [
        b'{"kind": "placed", "id": 1, "body": {"a": 1, "a": 2}}',
        b'{"kind": "placed", "id": 2}',
    ]
    frame = spark.createDataFrame([(value,) for value in values], "value BINARY")

    class Context:
        wanted = frozenset(["rejected", "placed"])

    found = made.apply(Inputs({"input": frame}), Context()).collect()
    assert [row["_output"] for row in found] == ["rejected", "placed"]
    assert "body has a key twice" in found[0]["_rejected"]["reason"]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ("v STRUCT<x: VARIANT, n: INT>", '{"x": {"a": 1}, "n": 1}', '{"x": {"a": 1, "a": 2}}'),
        ("v ARRAY<VARIANT>", '[1, null, {"a": 1}]', '[1, {"a": 1, "a": 2}]'),
        ("v MAP<STRING, ARRAY<VARIANT>>", '{"k": [{"a": 1}, null]}', '{"k": [{"a": 1, "a": 2}]}'),
        ("v ARRAY<STRUCT<m: MAP<STRING, VARIANT>>>", '[null, {"m": {"k": 1}}]', '[{"m": {"k": {"a": 1, "a": 2}}}]'),
    ],
)  # fmt: skip
def test_a_variant_in_a_value_that_is_none_refuses_its_row(spark, schema, good, bad):
    """Pass: wherever it is; nothing becomes null in silence."""
    given = {"format": "json", "schema": schema}
    made = Decode(Decode.options_for(given, Registry().component).model_validate(given))
    values = [(f'{{"v": {each}}}'.encode(),) for each in (good, bad, "null")]
    frame = spark.createDataFrame(values, "value BINARY").coalesce(1)

    class Context:
        wanted = frozenset(["rejected"])

    found = made.apply(Inputs({"input": frame}), Context()).collect()
    assert [row["_output"] for row in found] == [None, "rejected", None]
    assert "v has a key twice" in found[1]["_rejected"]["reason"]


def test_rows_of_a_type_have_the_identity_of_their_message(plan_of):
    """Pass: so that sinks tell them apart, as they do those of the main output."""
    plan = plan_of(sinks=[("places", "event.placed")])
    assert identity.begins(Stream("event", "placed"), plan.nodes)
    assert [c.name for c in plan.shape(Stream("event", "placed")).columns] == ["id", "city", "line"]
    assert [c.name for c in plan.shape(Stream("event")).columns] == ["line"]


def test_what_is_kept_needs_a_name_of_its_own(plan_of):
    """Pass: it stands beside the fields of each type."""
    with pytest.raises(DocumentError, match="'city' is one of placed"):
        plan_of({"city": "position"}, [("places", "event.placed")])


def test_rows_of_tables_come_out_each_with_an_identity_of_its_own(spark, tmp_path):
    """Pass: several, none, and a refused one; what is kept stands beside each."""
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table({"id": [1, 2, 3], "city": ["Oslo", None, "Bergen"]}), sink)
    whole = sink.getvalue().to_pybytes()
    empty = pa.BufferOutputStream()
    parquet.write_table(pa.table({"id": pa.array([], pa.int64())}), empty)
    given = {
        "format": "parquet",
        "schema": "id BIGINT NOT NULL, city STRING",
        "keep": {"of": "origin"},
    }
    made = Decode(Decode.options_for(given, Registry().component).model_validate(given))
    schema = "_id BINARY, value BINARY, origin STRING"
    messages = [
        (b"1", whole, "a"),
        (b"2", b"no table", "b"),
        (b"3", empty.getvalue().to_pybytes(), "c"),
    ]
    messages.append((b"4", whole, "d"))

    class Context:
        wanted = frozenset(["rejected"])

    frame = made.apply(Inputs({"input": spark.createDataFrame(messages, schema)}), Context())
    found = frame.collect()
    good = [row for row in found if row["_output"] is None]
    assert sorted((row["of"], row["id"], row["city"]) for row in good) == [
        (of, *row) for of in "ad" for row in ((1, "Oslo"), (2, None), (3, "Bergen"))
    ]
    (bad,) = (row for row in found if row["_output"] == "rejected")
    assert (bad["_id"], bad["of"], bad["_rejected"]["reason"]) == (b"2", "b", "not Parquet")
    assert bad["_rejected"]["payload"] == b"no table"
    ids = {bytes(row["_id"]) for row in good}
    assert len(ids) == 6
    assert {len(each) for each in ids} == {16}
    again = made.apply(Inputs({"input": spark.createDataFrame(messages[::-1], schema)}), Context())
    assert {bytes(row["_id"]) for row in again.collect() if row["_output"] is None} == ids


SCHEMAS = {"placed": "id BIGINT, city STRING", "paid": "id BIGINT, cents BIGINT"}


def of_json(**by_type):
    given = {"format": "json", "by_type": {"field": "kind", "schemas": SCHEMAS, **by_type}}
    return Decode(Decode.options_for(given, Registry().component).model_validate(given))


def test_objects_of_json_are_told_apart_by_a_field():
    """Pass: by what it says, under other names too; another type is refused, or a row of the main output."""
    values = [
        b'{"kind": "OrderPlaced", "id": 1, "city": "Oslo"}',
        b'{"kind": "paid", "id": 1, "cents": 500}',
        b'{"kind": "gone", "id": 1}',
        b'{"id": 1}',
    ]
    names = {"placed": "OrderPlaced"}
    for others, told in (("refuse", ["kind is 'gone'", "kind is null"]), ("keep", [None, None])):
        read = opened(of_json(names=names, others=others).decoding())
        found = read(pa.array(values, pa.binary())).to_pylist()
        assert [row["c0"] for row in found] == [{"id": 1, "city": "Oslo"}, None, None, None]
        assert [row["c1"] for row in found] == [None, {"id": 1, "cents": 500}, None, None]
        assert [row["reason"] for row in found] == [None, None, *told]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"schema": "id BIGINT"}, "`by_type` has the schemas"),
        ({"timestamp_format": "yyyy"}, "not of `by_type`"),
        ({"by_type": {"field": "k", "schemas": SCHEMAS, "names": {"pad": "x"}}}, "names` has pad"),
        ({"by_type": {"field": "k", "schemas": SCHEMAS, "names": {"paid": "placed"}}}, "two types"),
        (
            {"by_type": {"field": "k", "schemas": {"rejected": "id INT"}}},
            "can't be called 'rejected'",
        ),
        ({"by_type": {"field": "k", "schemas": {"id": "id INT"}}}, "can't be called 'id'"),
        ({"keep": {"paid": "origin"}}, "'paid' is already in the schema"),
    ],
)
def test_types_of_json_that_do_not_fit_are_told(given, told):
    """Pass: before Spark, at the option."""
    whole = {"format": "json", "by_type": {"field": "kind", "schemas": SCHEMAS}, **given}
    made = Decode(Decode.options_for(whole, Registry().component).model_validate(whole))
    inputs = Inputs({"input": Events(MESSAGE_COLUMNS)})
    with pytest.raises(OptionError, match=told):
        made.outputs(inputs)
