"""Types, shapes, options and promises, as an author meets them."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import mainstem
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem import (
    MESSAGES,
    Accepts,
    Changelog,
    DocumentError,
    Events,
    Level,
    OptionError,
    Options,
    Promise,
    option,
)
from mainstem.columns import Column
from mainstem.contracts.columns import check_order, check_types, find_column
from mainstem.contracts.ddl import DDLError, parts_of, quoted, read_columns
from mainstem.contracts.options import PositiveDuration, read_duration, read_size, write_duration
from mainstem.document.checking import _plain
from mainstem.plan.build import make_plan
from pydantic import ValidationError

TYPES = st.recursive(
    st.sampled_from(["int", "bigint", "string", "double", "timestamp", "binary", "variant"]),
    lambda inner: st.one_of(
        inner.map(lambda t: f"array<{t}>"),
        st.tuples(inner, inner).map(lambda t: f"map<{t[0]},{t[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: "struct<" + ",".join(f"f{i}:{t}" for i, t in enumerate(ts)) + ">"
        ),
    ),
    max_leaves=6,
)


@given(st.lists(st.tuples(st.text("ab`c_ é.", min_size=1), TYPES), min_size=1, max_size=4))
def test_columns_survive_being_written_and_read(columns):
    """Pass: any names and nested types read back equal, in Spark's short form."""
    made = {name.lower(): Column(name, kind) for name, kind in columns}
    text = ", ".join(column.ddl for column in made.values())
    assert read_columns(text) == tuple(made.values())


def test_types_have_one_spelling():
    """Pass: aliases, case and spaces do not matter."""
    text = "Struct< a : INTEGER COMMENT 'x, y', `b c`: Decimal(5) , c Array<LONG> NOT NULL>"
    assert read_columns(f"x {text}")[0].type == "struct<a:int,`b c`:decimal(5,0),c:array<bigint>>"
    assert read_columns("a INT NOT NULL COMMENT 'it''s'"[:14])[0] == Column(
        "a", "int", nullable=False
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a column name"), ("a", "a type"), ("a INT,", "a column name"), ("a INT b", "the end"),
        ("a INTT", "a type"), ("a INT, A STRING", "twice"), ("a ARRAY<INT", "'>'"), ("a %", "unexpected '%'"),
        ("a DECIMAL(40,2)", "precision"), ("a INT NOT", "NULL"), ("1 INT", "a column name"),
    ],
)  # fmt: skip
def test_wrong_ddl_says_what_was_expected(text, words):
    """Pass: an error in those words."""
    with pytest.raises(DDLError, match=words):
        read_columns(text)


def test_a_name_is_quoted_whatever_it_holds():
    """Pass: a backtick is doubled."""
    assert quoted("a`b") == "`a``b`"


@given(st.integers(1, 10**9))
def test_durations_are_written_so_that_they_read_back(millis):
    """Pass: no duration changes on the way through text."""
    assert read_duration(write_duration(timedelta(milliseconds=millis))) == timedelta(
        milliseconds=millis
    )


class LimitedOptions(Options):
    wait: PositiveDuration = option(timedelta(seconds=2), le=timedelta(hours=12), description="w")
    every: PositiveDuration | None = option(None, ge=timedelta(minutes=1), description="e")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"wait": "13 hours"}, "expected less than or equal to 12 hours"),
        ({"every": "59 s"}, "expected greater than or equal to 1 minute"),
        ({"every": "0 s"}, "expected more than 0 seconds"),
        ({"wait": "soon"}, "expected a duration"),
    ],
)
def test_limits_of_durations_hold_and_are_told_as_people_write_them(given, told):
    """Pass: also where an option may be left out."""
    with pytest.raises(ValidationError) as refused:
        LimitedOptions.model_validate(given)
    assert told in _plain(refused.value.errors()[0])
    assert LimitedOptions.model_validate({"wait": "12 hours", "every": "1 minute"})


def test_durations_and_sizes_as_people_write_them():
    """Pass: units, plurals, sums and decimals."""
    assert read_duration("1 hour 30 minutes") == timedelta(hours=1.5)
    assert read_duration("250ms") == timedelta(milliseconds=250)
    assert read_size("1.5 GB") == 1_500_000_000
    assert read_size("64 MiB") == 64 * 1024 * 1024
    for wrong in ("", "5", "minutes", "5 parsecs", "5 minutes ago"):
        with pytest.raises(ValueError, match="duration|unit"):
            read_duration(wrong)
    with pytest.raises(ValueError, match="size"):
        read_size("5 XB")


@pytest.mark.parametrize("long", ["9999999999 weeks", f"{'9' * 400} s"])
def test_a_duration_that_nothing_can_hold_is_refused(long):
    """Pass: a ValueError, which pydantic makes a problem of the document."""
    with pytest.raises(ValueError, match="too long; expected at most 999999999 days"):
        read_duration(long)


@pytest.mark.parametrize("large", [f"{'9' * 400} B", "10000000 TiB", 2**63])
def test_a_size_that_nothing_can_hold_is_refused(large):
    """Pass: a ValueError; the largest that Java counts is taken."""
    with pytest.raises(ValueError, match="too large; expected less than"):
        read_size(large)
    assert read_size(2**63 - 1) == 2**63 - 1


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"key": ["K"], "sequence": "N"}, None),
        ({"key": ["v"], "sequence": "n"}, "the key of one is k, of the other v"),
        ({"key": ["k", "v"], "sequence": "n"}, "the key of one is k, of the other k, v"),
        ({"key": ["k"], "sequence": "v"}, "the sequence of one is n, of the other v"),
        ({"key": ["k"]}, "the sequence of one is n, of the other the batch"),
        ({"key": ["k"], "sequence": "n", "preimages": True}, "only one has pre-images"),
    ],
)
def test_changelogs_of_different_tables_are_unlike(other, words):
    """Pass: said in these words, whichever of the two is asked."""
    columns = "k STRING, v BIGINT, n BIGINT"
    one, two = Changelog(columns, ["k"], "n"), Changelog(columns, **other)
    assert one.unlike(two) == words
    assert (two.unlike(one) is None) == (words is None)


def test_shapes_name_what_they_tell_of_as_their_columns_are_named():
    """Pass: in whatever case an option or a later step has it; what is no column keeps its name."""
    columns = read_columns("Id STRING, n BIGINT")
    made = Changelog(columns, ["ID"], "N", identity=["iD", "_offset"])
    assert (made.key, made.sequence, made.identity) == (("Id",), "n", ("Id", "_offset"))
    assert made.with_columns([Column("ID", "string")]).key == ("ID",)
    assert Events(columns, identity=["id"]).identity == ("Id",)


def test_rows_that_are_no_messages_are_told_of_encode():
    """Pass: where a message column is missing or of another type, and nowhere else."""
    rows = Events("k STRING, v INT")
    assert "operator `encode`" in (MESSAGES.refusal(rows) or "")
    assert "operator `encode`" in (MESSAGES.refusal(Events("value STRING")) or "")
    assert "encode" not in (Accepts(columns="n INT").refusal(rows) or "")


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("timestamp", []),
        ("decimal(5,2)", []),
        ("array<array<int>>", [("element", "array<int>")]),
        ("map<decimal(5,2),struct<a:int>>", [("key", "decimal(5,2)"), ("value", "struct<a:int>")]),
        ("struct<`a,<b`:int,c:map<string,date>>", [("a,<b", "int"), ("c", "map<string,date>")]),
    ],
)
def test_a_nested_type_is_made_of_others(kind, parts):
    """Pass: its own parts, each whole."""
    assert [(part.name, part.type) for part in parts_of(kind)] == parts


def test_an_option_without_a_description_is_a_mistake_of_its_author():
    """Pass: the class can't be made."""
    with pytest.raises(TypeError, match="option 'n' of .* has no description"):

        class Bare(Options):
            n: int = 1

    class Good(Options):
        n: int = option(1, gt=0, description="A number.")

    assert Good().n == 1


def test_promises_add_up_and_meet_requirements():
    """Pass: losing and doubling are told apart; exactly-once needs neither."""
    lossy, doubling, exact = Promise(may_lose=True), Promise(may_double=True), Promise()
    levels = {
        exact: Level.EXACTLY_ONCE,
        doubling: Level.AT_LEAST_ONCE,
        lossy: Level.AT_MOST_ONCE,
        lossy.then(doubling): Level.NONE,
    }
    assert all(promise.level is level for promise, level in levels.items())
    assert [p.meets(Level.AT_LEAST_ONCE) for p in levels] == [True, True, False, False]
    assert [p.meets(Level.AT_MOST_ONCE) for p in levels] == [True, False, True, False]
    assert [p.meets(Level.EXACTLY_ONCE) for p in levels] == [True, False, False, False]


def test_ports_say_why_a_shape_does_not_fit():
    """Pass: kind, missing column, type and pre-images each have their words."""
    events = Events("a INT")
    changes = Changelog("a INT", key=["a"])
    assert Accepts().refusal(events) is None
    assert Accepts((Changelog,)).refusal(events) == "takes changelog, not events"
    assert "needs a column `b` int" in str(Accepts(columns="b INT").refusal(events))
    assert "not `a` int" in str(Accepts(columns="a STRING").refusal(events))
    assert "pre-images" in str(Accepts(preimages=True).refusal(changes))


def test_importing_mainstem_and_all_it_exports_imports_no_spark():
    """Pass: a fresh interpreter has no pyspark, pandas or pyarrow after taking every name."""
    script = (
        "import mainstem, sys\n"
        "[getattr(mainstem, name) for name in mainstem.__all__]\n"
        "sys.exit(bool({'pyspark', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    assert dir(mainstem) == mainstem.__all__
    with pytest.raises(AttributeError, match="nothing"):
        _ = mainstem.nothing


def test_a_column_that_an_option_names_is_found_or_told():
    """Pass: case aside; what is not there is told with the nearest name, a hint, or all names."""
    columns = read_columns("Amount DOUBLE, at TIMESTAMP")
    assert find_column(columns, "amount", "by").name == "Amount"
    for name, said, hint in (
        ("amont", "there is no column 'amont'", "Did you mean 'Amount'?"),
        ("x", "there is no column 'x'", "Columns: Amount, at."),
    ):
        with pytest.raises(OptionError, match=said) as failure:
            find_column(columns, name, "by")
        assert (failure.value.option, failure.value.hint) == ("by", hint)
    with pytest.raises(OptionError, match="the table has no column 'x'") as failure:
        find_column(columns, "x", "by", whose="the table", hint="Give one.")
    assert failure.value.hint == "Give one."


def test_columns_of_other_types_or_without_an_order_are_refused():
    """Pass: one of an unknown type, or left out, passes; of another type it is told with those that fit."""
    wanted = {"Key": ("string", "binary"), "n": ("int",), "headers": ("map<string,binary>",)}
    check_types([Column("key", "binary"), Column("headers", "map<string, binary>")], wanted)
    check_types([Column("key"), Column("n", "int")], wanted)
    with pytest.raises(OptionError, match="column Key is double, and must be string or binary"):
        check_types([Column("key", "double")], wanted)
    check_order(
        read_columns("origin STRING, Partition STRING, position STRING, k INT"),
        "order",
        "x",
        key="K",
    )
    with pytest.raises(
        OptionError, match="without position, key nobody knows the order"
    ) as failure:
        check_order(read_columns("origin STRING, partition STRING"), "order", "write `order: key`")
    assert failure.value.hint == (
        "Keep these columns of the source's (`keep` of `decode` and `encode`), or write `order: key`."
    )


@pytest.mark.parametrize(
    ("sequence", "kind"), [("n", "int"), ("x", None), ("gone", None), (None, "bigint")]
)
def test_a_changelogs_own_columns_have_types_as_far_as_they_are_known(sequence, kind):
    """Pass: the sequence's is that of its column, and a batch's id is BIGINT."""
    shape = Changelog([*read_columns("k STRING, n INT"), Column("x")], ["k"], sequence)
    assert shape.change_columns == (
        Column("_change_type", "string"),
        Column("_commit_version", kind),
        Column("_commit_timestamp", "timestamp"),
    )


@pytest.mark.parametrize(
    ("use", "options"),
    [
        ("encode", {"format": "raw", "columns": ["value"], "keep": {"_output": "position"}}),
        ("encode", {"format": "raw", "columns": ["value"], "keep": {"": "position"}}),
        ("encode", {"format": "raw", "columns": ["value"], "keep": {"p": "1", "P": "2"}}),
        ("decode", {"format": "json", "schema": "a INT", "keep": {"_id": "position"}}),
        ("decode", {"format": "json", "schema": "_output STRING"}),
        ("decode", {"format": "json", "into": "_id"}),
        ("select", {"columns": {"a": "1", "A": "2"}}),
        ("select", {"columns": {"_output": "'x'"}}),
    ],
)
def test_no_option_makes_a_column_that_is_reserved_or_there_twice(use, options):
    """Pass: a problem of the document; the core would take such a column for its own, and rows for those
    of another output."""
    parts = {
        "pipeline": "p",
        "sources": {"lines": {"use": "files", "with": {"path": "in", "format": "message"}}},
        "operators": {"step": {"use": use, "from": "lines", "with": options}},
        "sinks": {"out": {"use": "console", "from": "step"}},
    }
    with pytest.raises(DocumentError, match="are reserved|needs a name|would be two columns"):
        make_plan(parts)


def test_a_sequence_keeps_its_type_whatever_its_name_stands_for():
    """Pass: the type of `_commit_version` is that of the column that it was made of."""
    made = Changelog("k STRING, n BIGINT", ["k"], "n")
    assert made.change_columns[1] == Column("_commit_version", "bigint")
    other = made.with_columns([Column("k", "string"), Column("n", "decimal(9,2)")])
    assert other.change_columns[1].type == "bigint"
    unknown = Changelog([Column("k", "string"), Column("n")], ["k"], "n")
    assert unknown.with_columns([Column("n", "date")]).change_columns[1].type is None
    assert Changelog("k STRING", ["k"]).change_columns[1].type == "bigint"
