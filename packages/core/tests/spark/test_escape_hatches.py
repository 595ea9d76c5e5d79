"""`sql`, `python` and `spark`, run for real; and what they refuse, above an anchor and below."""

from __future__ import annotations

from typing import Any

import pytest
from mainstem import (
    DocumentError,
    Events,
    Inputs,
    MainstemError,
    Operator,
    Options,
    StateFacts,
    Stateful,
)
from mainstem.discovery import Word
from mainstem.plan.build import make_plan
from mainstem.registry import Registry
from mainstem.run.runner import run

ROW = {
    "use": "decode",
    "from": "lines",
    "with": {"format": "json", "schema": "k STRING, v INT, at TIMESTAMP"},
    "on_rejected": "drop",
}
KV = "k STRING, v INT"


class NoOptions(Options):
    """None."""


class Once(Operator, Stateful):
    """Keeps the keys it has seen, so that it anchors a query and what is above it streams."""

    options: NoOptions

    def shape(self, inputs: Inputs[Any]) -> Events:
        return Events(KV, identity=["k"])

    def state(self, inputs: Inputs[Any]) -> StateFacts:
        return StateFacts(version=1)

    def apply(self, inputs: Inputs[Any], ctx: Any) -> Any:
        return inputs.only.select("k", "v").dropDuplicates(["k"])


class WithOnce(Registry):
    """What is installed, and the operator `once`."""

    def component(self, kind: str, word: str) -> Any:
        return Once if word == "once" else super().component(kind, word)

    def find(self, kind: str, word: str) -> Word:
        if word == "once":
            return Word("operator", "once", "tests", "1", "tests")
        return super().find(kind, word)


def sql(query: str, stream: Any = "row", schema: str = KV, **more: Any) -> dict[str, Any]:
    return {"use": "sql", "from": stream, "with": {"query": query, "schema": schema, **more}}


def python(call: str, stream: Any = "row", schema: str = KV, **more: Any) -> dict[str, Any]:
    return {"use": "python", "from": stream, "with": {"call": call, "schema": schema, **more}}


def through(pipeline: Any, step: dict[str, Any], **parts: Any) -> Any:
    """Write a document whose rows go through one step into a folder."""
    pipeline.document(
        operators={"row": ROW, "step": step}, sinks={"out": pipeline.sink("out", "step")}, **parts
    )
    return pipeline


def refusal(pipeline: Any, step: dict[str, Any], *, above: bool = False) -> str:
    """Return what a run says that must not start; `above` puts an anchor below the step."""
    operators = {"row": ROW, "step": step}
    if above:
        operators["one"] = {"use": "once", "from": "step"}
    last = "one" if above else "step"
    pipeline.document(operators=operators, sinks={"out": pipeline.sink("out", last)})
    with pytest.raises(DocumentError) as error:
        run(make_plan(pipeline.file, WithOnce()))
    assert not (pipeline.folder / "out").exists()
    return str(error.value)


def module(pipeline: Any, name: str, text: str) -> None:
    (pipeline.folder / f"{name}.py").write_text(text)


def pairs(pipeline: Any, name: str = "out") -> list[tuple[Any, ...]]:
    return sorted((row.get("k"), row.get("v")) for row in pipeline.rows(name))


# -- sql ------------------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_sql_runs_a_query_over_its_input(pipeline):
    """Pass: computed columns and a filter, with `*`, a WITH and braces; no view is left behind."""
    from pyspark.sql import SparkSession

    query = """
        WITH some AS (SELECT * FROM input WHERE v > 1)
        SELECT concat(some.k, '{x}') AS k, v * 2 AS v FROM some;
    """
    through(pipeline, sql(query))
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "c", "v": 3}])
    pipeline.run()
    assert pairs(pipeline) == [("b{x}", 4), ("c{x}", 6)]
    session = SparkSession.getActiveSession()
    assert session is not None
    assert [table.name for table in session.catalog.listTables()] == []


@pytest.mark.in_turn
def test_sql_joins_a_table_that_does_not_stream(pipeline):
    """Pass: each row has found its partner in a table that stands in the query."""
    query = "SELECT i.k, n AS v FROM input i LEFT JOIN VALUES ('a', 7) AS t(k, n) ON i.k = t.k"
    through(pipeline, sql(query))
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    pipeline.run()
    assert pairs(pipeline) == [("a", 7), ("b", None)]


@pytest.mark.parametrize("same_anchor", [True, False])
@pytest.mark.in_turn
def test_sql_has_several_tables(pipeline, same_anchor):
    """Pass: rows of both ports come out, be they parts of one batch or two streams."""
    (pipeline.folder / "in2").mkdir()
    (pipeline.folder / "in2" / "1.jsonl").write_text('{"k":"z","v":26}\n')
    other = {"path": "./in2", "format": "jsonlines", "schema": KV}
    query = "SELECT k, v FROM orders UNION ALL SELECT upper(k), -v FROM cities"
    ports = {"orders": "row", "cities": "row" if same_anchor else "more"}
    lines = {"use": "files", "with": {"path": "./in", "format": "message"}}
    more = {} if same_anchor else {"more": {"use": "files", "with": other}}
    step = sql(query, ports, tables=["orders", "cities"])
    through(pipeline, step, sources={"lines": lines, **more})
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    summary = pipeline.run()
    assert pairs(pipeline) == ([("A", -1), ("a", 1)] if same_anchor else [("Z", -26), ("a", 1)])
    assert list(summary["queries"]) == (["lines"] if same_anchor else ["step"])


@pytest.mark.in_turn
def test_sql_streams_above_an_anchor(pipeline):
    """Pass: a step above one that keeps state works in each of two runs on one checkpoint."""
    pipeline.document(
        operators={
            "row": ROW,
            "step": sql("SELECT upper(k) AS k, v FROM input"),
            "one": {"use": "once", "from": "step"},
        },
        sinks={"out": pipeline.sink("out", "one")},
    )
    for number, keys in enumerate(["ab", "bc"]):
        pipeline.feed(f"{number}.jsonl", [{"k": key, "v": number} for key in keys])
        run(make_plan(pipeline.file, WithOnce()))
    assert pairs(pipeline) == [("A", 0), ("B", 0), ("C", 1)]


@pytest.mark.in_turn
def test_row_wise_steps_keep_the_identity(pipeline):
    """Pass: below `sql` and `python` a refused row has the `_id` that it has without them."""
    module(pipeline, "kept_rows", "def same(frame):\n    return frame.where('k != \"x\"')\n")
    table = {"use": "changelog", "from": "called", "with": {"key": ["k"], "sequence": "v"}}
    pipeline.document(
        operators={
            "row": ROW,
            "asked": sql("SELECT _id, k, v FROM input", row_wise=True),
            "called": python("kept_rows:same", "asked", row_wise=True),
            "table": table,
            "plain": {**table, "from": "row"},
        },
        sinks={
            "bad": pipeline.sink("bad", "table.rejected"),
            "plain_bad": pipeline.sink("plain_bad", "plain.rejected"),
            "good": pipeline.sink("good", "table"),
            "plain_good": pipeline.sink("plain_good", "plain"),
        },
    )
    pipeline.feed("1.jsonl", [{"k": "a"}, {"k": "b", "v": 2}, {"k": "c"}])
    pipeline.run()
    ids = [{row["_id"] for row in pipeline.rows(name)} for name in ("bad", "plain_bad")]
    assert len(ids[0]) == 2
    assert None not in ids[0]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("query", "step", "instead"),
    [
        (
            "SELECT k, CAST(sum(v) AS INT) AS v FROM input GROUP BY k",
            "an aggregation",
            "`aggregate`",
        ),
        ("SELECT DISTINCT k, v FROM input", "DISTINCT", "`aggregate`"),
        ("SELECT k, v FROM input UNION SELECT k, v FROM input", "UNION without ALL", "`aggregate`"),
        ("SELECT k, v FROM input LIMIT 3", "LIMIT", "A stream has no end"),
        ("SELECT k, v FROM input ORDER BY v", "ORDER BY", "A stream has no end"),
        (
            "SELECT k, row_number() OVER (PARTITION BY k ORDER BY at) AS v FROM input",
            "a window function",
            "`aggregate`",
        ),
        (
            "SELECT a.k, b.v FROM input a JOIN input b ON a.k = b.k",
            "a join of streams",
            "join operator",
        ),
        ("SELECT k, v FROM input EXCEPT ALL SELECT k, v FROM input", "EXCEPT", "join operator"),
        ("SELECT k, v FROM input TABLESAMPLE (10 PERCENT)", "a random sample", "other rows"),
        (
            "SELECT k, v FROM input WATERMARK at DELAY OF INTERVAL 1 MINUTE",
            "a watermark",
            "`watermark:`",
        ),
    ],
)
def test_sql_refuses_a_step_that_keeps_state(pipeline, query, step, instead):
    """Pass: refused before a query starts, above an anchor and below, by the step and the way out."""
    for above in (False, True):
        told = refusal(pipeline, sql(query), above=above)
        assert "operators.step.with.query: keeps no state, and has " in told
        assert step in told
        assert instead in told


@pytest.mark.parametrize("same_anchor", [True, False])
@pytest.mark.in_turn
def test_sql_refuses_a_join_of_two_streams(pipeline, same_anchor):
    """Pass: of two tables of one batch as of two sources, and with an outer join too."""
    ports = {"orders": "row", "cities": "row" if same_anchor else "more"}
    for kind in ("JOIN", "LEFT JOIN"):
        query = f"SELECT o.k, c.v FROM orders o {kind} cities c ON o.k = c.k"
        rate = {"use": "rate"}
        more = {"use": "select", "from": "ticks", "with": {"columns": {"k": "'a'", "v": "1"}}}
        pipeline.document(
            sources={
                "lines": {"use": "files", "with": {"path": "./in", "format": "message"}},
                **({} if same_anchor else {"ticks": rate}),
            },
            operators={
                "row": ROW,
                **({} if same_anchor else {"more": more}),
                "step": sql(query, ports, tables=["orders", "cities"]),
            },
            sinks={"out": pipeline.sink("out", "step")},
        )
        with pytest.raises(DocumentError, match="keeps no state, and has a join of streams"):
            pipeline.run()


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (sql("SELECT k, v FROM inputs"), "there is no table 'inputs'\n    Did you mean 'input'?"),
        (sql("SELECT k, w AS v FROM input"), "operators.step.with.query: "),
        (sql("DROP TABLE input"), "operators.step.with.query: "),
        (sql("SELECT 1) UNION ALL (SELECT 2"), "operators.step.with.query: "),
        (sql("SELECT k, v FROM input WHERE k IN (SELECT k FROM input)"), "subquery"),
        (sql("SELECT 'a' AS k, 1 AS v"), "does not read the table 'input'"),
        (sql("SELECT k, CAST(monotonically_increasing_id() AS INT) AS v FROM input"), "not supported"),
        (sql("SELECT k FROM input"), "step.with.schema: does not fit what `query` gives: there is no column v"),
        (sql("SELECT k, v + 1L AS v FROM input"), "v is BIGINT, not INT"),
        (sql("SELECT k, v, at FROM input"), "at is not declared"),
        (sql("SELECT k, v FROM input", row_wise=True), "does not pass on _id"),
        (sql("SELECT _id, k, explode(array(1, 2)) AS v FROM input", row_wise=True), "explodes rows"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_query_is_told(pipeline, step, told):
    """Pass: a problem of the document, at the option, in these words, before a query starts."""
    assert told in refusal(pipeline, step)


@pytest.mark.in_turn
def test_the_event_time_can_pass_and_can_not_be_computed(pipeline):
    """Pass: as it came it goes on with its watermark; computed it is refused, for that would be gone."""
    for text in ("at", "at + INTERVAL 1 DAY AS at"):
        row = {**ROW, "watermark": {"column": "at", "delay": "1 minute"}}
        step = sql(f"SELECT k, v, {text} FROM input", schema=f"{KV}, at TIMESTAMP")
        pipeline.document(
            operators={"row": row, "step": step, "one": {"use": "once", "from": "step"}},
            sinks={"out": pipeline.sink("out", "one")},
        )
        plan = make_plan(pipeline.file, WithOnce())
        event_time = plan.nodes["step"].shape.event_time
        assert event_time is not None
        assert event_time.column == "at"
        if text == "at":
            pipeline.feed("1.jsonl", [{"k": "a", "v": 1, "at": "2026-01-01T00:00:00Z"}])
            run(plan)
            assert pairs(pipeline) == [("a", 1)]
        else:
            with pytest.raises(
                DocumentError, match="computes at, the column of the stream's event"
            ):
                run(plan)


# -- python ---------------------------------------------------------------------------------------

RULES = """
from pyspark.sql import functions as F

import {helper}

@F.udf("int")
def twice(v):
    return {helper}.times(v, 2)

def add(frame, by):
    return frame.select("k", (twice("v") + by).alias("v"))

def both(orders, cities, sign):
    return orders.select("k", "v").unionByName(cities.selectExpr("k", f"{{sign}} * v AS v"))
"""


@pytest.mark.in_turn
def test_python_calls_a_function_of_a_module_beside_the_document(pipeline):
    """Pass: with options, and with a UDF whose helper module the workers do not have on disk."""
    module(pipeline, "adding", RULES.format(helper="adding_help"))
    module(pipeline, "adding_help", "def times(v, n):\n    return v * n\n")
    through(pipeline, python("adding:add", options={"by": 10}))
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    pipeline.run()
    assert pairs(pipeline) == [("a", 12), ("b", 14)]


@pytest.mark.in_turn
def test_python_has_several_tables_and_each_document_its_own_module(pipeline, tmp_path_factory):
    """Pass: frames come by the ports' names; a module of the same name elsewhere does not get in."""
    other = type(pipeline)(tmp_path_factory.mktemp("other"))
    module(other, "shared_name", "def both(orders, cities, sign):\n    raise RuntimeError\n")
    step = python(
        "shared_name:both",
        {"orders": "row", "cities": "row"},
        tables=["orders", "cities"],
        options={"sign": -1},
    )
    assert "raised RuntimeError (shared_name.py, line 2)" in refusal(other, step)
    module(pipeline, "shared_name", RULES.format(helper="json"))
    through(pipeline, step)
    pipeline.feed("1.jsonl", [{"k": "a", "v": 1}])
    pipeline.run()
    assert pairs(pipeline) == [("a", -1), ("a", 1)]


WRONG = """
from functools import partial

value = 3

def raising(frame):
    raise LookupError("no rate for EUR")

def nothing(frame):
    frame.select("k")

def elsewhere(frame):
    return frame.sparkSession.sql("SELECT 'a' AS k, 1 AS v")

def counting(frame):
    return frame.groupBy("k").count().selectExpr("k", "CAST(count AS INT) AS v")

def unique(frame):
    return frame.dropDuplicates(["k"]).select("k", "v")

def grouping(frame):
    return frame.groupBy("k").applyInPandas(lambda rows: rows[["k", "v"]], "k STRING, v INT")

def joining(frame):
    return frame.alias("a").join(frame.alias("b"), "k").select("k", "a.v")

def misnamed(frame):
    return frame.select("k", "w")
"""


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("nowhere_at_all:f", "there is no module 'nowhere_at_all' in"),
        ("wrong_rules:raisin", "has no function 'raisin'\n    Did you mean 'raising'?"),
        ("wrong_rules:value", "has no function, but a value, 'value'"),
        ("wrong_rules:raising", "wrong_rules:raising raised LookupError: no rate for EUR (wrong_rules.py, line 7)"),
        ("wrong_rules:misnamed", "wrong_rules:misnamed raised AnalysisException: "),
        ("wrong_rules:nothing", "returned NoneType, not a DataFrame"),
        ("wrong_rules:elsewhere", "gives a table that does not come from its input"),
        ("wrong_rules:counting", "keeps no state, and has an aggregation"),
        ("wrong_rules:unique", "keeps no state, and has a removal of duplicates"),
        ("wrong_rules:grouping", "keeps no state, and has a step over groups of rows"),
        ("wrong_rules:joining", "keeps no state, and has a join of streams"),
        ("wrong_import:f", "import wrong_import raised ModuleNotFoundError: No module named 'not_there' (wrong_import.py, line 1)"),
        ("wrong_syntax:f", "import wrong_syntax raised SyntaxError: "),
        ("json:loads", "module 'json' of "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_function_is_told(pipeline, call, told):
    """Pass: a problem of the document that names node, option and cause; no traceback."""
    module(pipeline, "wrong_rules", WRONG)
    module(pipeline, "wrong_import", "import not_there\n")
    module(pipeline, "wrong_syntax", "def f(:\n")
    module(pipeline, "json", "")
    text = refusal(pipeline, python(call))
    assert "operators.step.with.call: " in text
    assert told in text
    assert "Traceback" not in text


@pytest.mark.parametrize("where", ["length(k) > 1", "1 = 0"])
@pytest.mark.in_turn
def test_a_batch_of_which_nothing_is_left_is_counted_all_the_same(pipeline, where):
    """Pass: no row is left before a step that shuffles; the run goes on, and the rows above are counted."""
    shuffled = "frame.repartition('k').selectExpr('k', 'v + length(k) AS v')"
    module(pipeline, "shuffling", f"def f(frame): return {shuffled}\n")
    pipeline.document(
        operators={
            "row": {**ROW, "on_rejected": "fail"},
            "doubled": {
                "use": "select",
                "from": "row",
                "with": {"columns": {"k": "k", "v": "2 * v"}},
            },
            "some": {"use": "select", "from": "doubled", "with": {"where": where}},
            "step": python("shuffling:f", "some"),
        },
        sinks={
            "out": pipeline.sink("out", "step"),
            "bad": pipeline.sink("bad", "row.rejected"),
        },
    )
    pipeline.feed("1.jsonl", ["not JSON", '{"k": "a", "v": 1}', '{"k": "b", "v": 1}'])
    nodes = pipeline.run()["queries"]["lines"]["nodes"]
    assert nodes["row"] == {"rows": 2, "rejected": 1}
    assert (nodes["out"], nodes["bad"]) == ({"rows": 0}, {"rows": 1})
    if where != "1 = 0":  # of what can't be, Spark evaluates nothing
        assert nodes["doubled"] == {"rows": 2}
    pipeline.feed("2.jsonl", [{"k": "ab", "v": 1}])
    pipeline.run()
    assert pairs(pipeline) == ([("ab", 4)] if where != "1 = 0" else [])


# -- spark ----------------------------------------------------------------------------------------


def spark(**options: Any) -> dict[str, Any]:
    return {"use": "spark", "with": options}


@pytest.mark.in_turn
def test_the_source_reads_text_and_the_sink_adds_parquet(pipeline):
    """Pass: two runs; all lines are in the sink's files, once, beside what was there."""
    pipeline.document(
        sources={"lines": spark(format="text", path="./in", schema="value STRING")},
        sinks={"out": {**spark(format="parquet", path="./out"), "from": "lines"}},
    )
    for number in range(2):
        pipeline.feed(f"{number}.txt", [f"{number} one", f"{number} two"])
        pipeline.run()
    assert parquet(pipeline) == ["0 one", "0 two", "1 one", "1 two"]


def parquet(pipeline: Any, column: str = "value") -> list[Any]:
    import pyarrow.parquet as pq

    files = (pipeline.folder / "out").glob("*.parquet")
    return sorted(v for file in files for v in pq.ParquetFile(file).read()[column].to_pylist())


@pytest.mark.in_turn
def test_the_sink_replaces_what_was_there_if_asked(pipeline):
    """Pass: only the last run's rows are left."""
    pipeline.document(
        sources={"lines": spark(format="text", path="./in", schema="value STRING")},
        sinks={"out": {**spark(format="parquet", path="./out", mode="overwrite"), "from": "lines"}},
    )
    for number in range(2):
        pipeline.feed(f"{number}.txt", [f"{number}"])
        pipeline.run()
    assert parquet(pipeline) == ["1"]


@pytest.mark.in_turn
def test_the_source_reads_parquet_with_options_and_identity(pipeline):
    """Pass: one file a batch as asked; a refused row has an `_id` of the column that was named."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number in range(3):
        table = pa.table(
            {"n": pa.array([number], pa.int32()), "k": pa.array([None], pa.string()), "m": [1]}
        )
        pq.write_table(table, pipeline.folder / "in" / f"{number}.parquet")
    pipeline.document(
        sources={
            "rows": spark(
                format="parquet",
                path="./in",
                schema="n INT, k STRING",
                identity=["n"],
                options={"maxFilesPerTrigger": 1},
            )
        },
        operators={
            "table": {"use": "changelog", "from": "rows", "with": {"key": ["k"], "sequence": "n"}}
        },
        sinks={
            "good": {**spark(format="noop"), "from": "table"},
            "bad": pipeline.sink("bad", "table.rejected"),
        },
    )
    summary = pipeline.run()
    assert len({row["_id"] for row in pipeline.rows("bad")}) == 3
    assert summary["queries"]["rows"]["batches"] == 3


@pytest.mark.in_turn
def test_a_format_that_finds_its_own_schema(pipeline):
    """Pass: `rate` is read without being given one, and only the declared column goes on."""
    pipeline.document(
        sources={
            "ticks": spark(
                format="rate-micro-batch", schema="value BIGINT", options={"rowsPerBatch": 5}
            )
        },
        trigger={"available_now": True},
        sinks={"out": pipeline.sink("out", "ticks")},
    )
    for _ in range(2):  # it has nothing before its first offset
        pipeline.run()
    rows = pipeline.rows("out")
    assert len(rows) >= 5
    assert all(set(row) == {"value"} for row in rows)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"format": "nosuch", "schema": "v INT"}, ["sources.rows.with.format: ", "`packages`"]),
        (
            {"format": "rate", "schema": "value INT"},
            ["sources.rows.with.schema: ", "value is BIGINT"],
        ),
        ({"format": "rate", "schema": "v INT"}, ["there is no column v", "It gives: timestamp"]),
        (
            {"format": "rate", "schema": "value BIGINT", "give_schema": True},
            ["sources.rows.with.format: rate can't be read: "],
        ),
    ],
)
def test_what_is_wrong_with_a_format_is_told(pipeline, options, told):
    """Pass: a problem of the document at the option, before a query starts."""
    pipeline.document(
        sources={"rows": spark(**options)}, sinks={"out": {**spark(format="noop"), "from": "rows"}}
    )
    with pytest.raises(DocumentError) as error:
        pipeline.run()
    assert all(text in str(error.value) for text in told)


@pytest.mark.in_turn
def test_a_sink_that_can_not_write_ends_the_run_and_tells_no_secret(pipeline, monkeypatch):
    """Pass: the cause is told without the value that a reference stands for."""
    monkeypatch.setenv("PASSWORD", "hunter2-hunter2")
    options = {"url": "jdbc:none:${env:PASSWORD}", "dbtable": "t", "password": "${env:PASSWORD}"}
    pipeline.document(
        sources={"lines": spark(format="text", path="./in", schema="value STRING")},
        sinks={"out": {**spark(format="jdbc", options=options), "from": "lines"}},
    )
    pipeline.feed("1.txt", ["a"])
    with pytest.raises(MainstemError) as error:
        pipeline.run()
    assert "driver" in str(error.value).lower()
    assert "hunter2" not in str(error.value)
