"""Documents with `match`: what comes out, what goes to other outputs, and what is told of wrong ones."""

from __future__ import annotations

import json

import pytest
from mainstem import DocumentError
from mainstem_operators_patterns.commands import app
from typer.testing import CliRunner

SCHEMA = "card STRING, at TIMESTAMP, amount DECIMAL(10, 2), shop STRUCT<name: STRING>, rows INT"
FRAUD = {
    "by": ["card"],
    "pattern": "small{2,5} large",
    "define": {
        "small": "amount < 100",
        "large": "amount > 1000 AND amount > 10 * avg(small.amount)",
    },
    "within": "10 minutes",
    "measures": {
        "smalls": "count(small)",
        "first_at": "first(small.at)",
        "share": "round(sum(small.amount) / last(large.amount), 4)",
        "where": "upper(large.shop.name)",
        "named": "element_at(last(map('n', large.shop.name)), 'n')",
    },
}


class Payments:
    """A document of payments, whose files are a batch each."""

    def __init__(self, pipeline):
        self.pipeline = pipeline
        self.fed = 0

    def feed(self, *rows):
        self.fed += 1
        lines = [
            {"card": card, "at": f"2026-01-01T{at}:00Z", "amount": amount, "shop": {"name": f"s{amount}"}}
            for card, at, amount in rows
        ]  # fmt: skip
        self.pipeline.feed(f"{self.fed:04}.json", [json.dumps(line) for line in lines])

    def document(self, outputs=("fraud",), **options):
        read = {"path": "./in", "format": "jsonlines", "schema": SCHEMA, "max_files": 1}
        time = {"column": "at", "delay": "5 minutes"}
        return self.pipeline.document(
            trigger={"available_now": True, "flush": True},
            sources={"payment": {"use": "files", "with": read, "watermark": time}},
            operators={"fraud": {"use": "match", "from": "payment", "with": {**FRAUD, **options}}},
            sinks={_sink(name): self.pipeline.sink(_sink(name), name) for name in outputs},
        )

    def rows(self, name="fraud"):
        return self.pipeline.rows(_sink(name))


def _sink(name):
    return f"to_{name.replace('.', '_')}"


@pytest.fixture
def payments(pipeline):
    made = Payments(pipeline)
    made.feed(("x", "10:00", 5), ("x", "10:02", 7.5), ("y", "10:00", 5), ("y", "10:01", 2000))
    made.feed(("x", "10:01", 20), ("x", "10:04", 1001), ("y", "10:03", 50), ("y", "10:04", 60))
    made.feed(("x", "10:30", 1), ("y", "11:00", 1))
    return made


@pytest.mark.in_turn
def test_a_pattern_over_payments(payments):
    """Pass: rows in the order of their time over batches; a match with its measures; what took too long, with how far it came;
    what came too late."""
    payments.feed(("x", "09:00", 1))
    payments.document(("fraud", "fraud.timeouts", "fraud.late")).run()
    (found,) = payments.rows()
    assert found.pop("match_id")
    assert found == {
        "card": "x",
        "match_start": "2026-01-01T10:00:00.000000Z",
        "match_end": "2026-01-01T10:04:00.000000Z",
        "smalls": 3,
        "first_at": "2026-01-01T10:00:00.000000Z",
        "share": 0.0325,
        "where": "S1001",
        "named": "s1001",
    }
    told = [
        (r["card"], r["match_start"][11:16], r["match_end"][11:16], r["rows"], r["reached"])
        for r in payments.rows("fraud.timeouts")
    ]
    assert sorted(told) == [
        ("x", "10:30", "10:40", 1, "small"),
        ("y", "10:03", "10:13", 2, "small"),
        ("y", "10:04", "10:14", 1, "small"),
        ("y", "11:00", "11:10", 1, "small"),
    ]
    assert [row["at"][11:16] for row in payments.rows("fraud.late")] == ["09:00"]


@pytest.mark.in_turn
def test_all_rows_come_out(payments):
    """Pass: each with its columns, variable and number, and the match's measures."""
    payments.document(rows="all", measures={"smalls": "count(small)"}).run()
    found = payments.rows()
    assert [(r["match_row"], r["classifier"], r["at"][11:16], r["smalls"]) for r in found] == [
        (1, "small", "10:00", 3),
        (2, "small", "10:01", 3),
        (3, "small", "10:02", 3),
        (4, "large", "10:04", 3),
    ]
    assert found[3]["shop"] == {"name": "s1001"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"pattern": "small{2,5"}, "expected a variable or a sign of patterns, at 6"),
        ({"pattern": "small? large*"}, "matches no row at all"),
        ({"define": {"huge": "amount > 1"}}, "'huge' is not in the pattern"),
        ({"define": {"large": "next(amount) > 1"}}, "large: next() is not known here"),
        ({"define": {"large": "abs(small.amount) > 1"}}, "large: a function of rows before can't"),
        ({"skip": "to_first huge"}, "'huge' is not in the pattern"),
        ({"pattern": "small large !refund"}, "'refund' has no definition"),
        ({"pattern": "small large !refund", "within": None}, "how long must no refund follow?"),
        ({"measures": {"Card": "count(*)"}}, "there are two columns 'Card'"),
        ({"by": ["cart"]}, "cart"),
        ({"by": ["card", "rows"]}, "there are two columns 'rows'"),
    ],
)
def test_wrong_documents_are_told(payments, options, told):
    """Pass: before anything runs, with the variable or the place, and the line."""
    with pytest.raises(DocumentError) as error:
        payments.document(**options).plan()
    assert told in str(error.value)
    assert "fraud" in str(error.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"define": {"small": "amont < 100"}}, "small: "),
        ({"define": {"small": "amount"}}, "small: "),
        ({"define": {"large": "amount > small.amont"}}, "define: large: "),
        (
            {"define": {"large": "small.at = '2026-01-01'"}},
            "large: timestamp = string: not of one kind",
        ),
        ({"measures": {"most": "max(amont)"}}, "measures: most: "),
        ({"measures": {"share": "nonsense(count(small))"}}, "share: "),
    ],
)
def test_what_spark_refuses_is_told_with_its_name(payments, options, told):
    """Pass: the variable or measure, and Spark's words."""
    with pytest.raises(DocumentError) as error:
        payments.document(**options).run()
    assert told in str(error.value)


def test_other_rows_of_matches_need_other_state(payments):
    """Pass: what comes out of each match decides which columns are kept, and so is looked at."""
    one, every = (payments.document(rows=kind).plan().nodes["fraud"] for kind in ("one", "all"))
    assert one.state.shaped_by != every.state.shaped_by


def test_a_pattern_without_an_end_is_told(payments):
    """Pass: by the plan, as what it keeps grows."""
    plan = payments.document(within=None).plan()
    assert "give `within`" in plan.nodes["fraud"].state.grows


@pytest.mark.in_turn
def test_rows_of_one_time_are_in_their_order(payments):
    """Pass: by the columns that the document names, whatever order they come in; null is before all others."""
    payments.feed(("z", "12:00", 30), ("z", "12:00", 10), ("z", "12:00", None), ("z", "12:00", 20))
    payments.feed(("z", "12:00", 15))
    payments.document(
        order=["amount"],
        pattern="any{5}",
        define={},
        measures={"amounts": "collect_list(amount)", "rows": "count(*)", "began": "first(amount)"},
    ).run()
    (found,) = (row for row in payments.rows() if row["card"] == "z")
    assert (found["amounts"], found["rows"]) == ([10, 15, 20, 30], 5)
    assert found.get("began") is None


RULES = [
    {"rule": "probe", "text": "small{2,5} large", "n": 1},
    {"rule": "twice", "text": "small{2} large", "n": 1},
    {"rule": "wrong", "text": "small huge", "n": 1},
]


@pytest.fixture
def ruled(pipeline):
    """A document whose patterns are rows of files."""
    made = Payments(pipeline)
    made.feed(("x", "10:00", 5), ("x", "10:02", 7.5), ("y", "10:00", 5), ("y", "10:01", 2000))
    made.feed(("x", "10:01", 20), ("x", "10:04", 1001), ("y", "10:03", 50), ("y", "10:04", 60))
    made.feed(("x", "10:30", 1), ("y", "11:00", 1))
    rules = pipeline.folder / "rules"
    rules.mkdir()
    (rules / "1.json").write_text("".join(json.dumps(rule) + "\n" for rule in RULES))
    read = {"format": "jsonlines", "max_files": 1}
    options = {name: FRAUD[name] for name in ("by", "define", "within")}
    pipeline.document(
        trigger={"available_now": True, "flush": True},
        sources={
            "payment": {
                "use": "files",
                "with": {**read, "path": "./in", "schema": SCHEMA},
                "watermark": {"column": "at", "delay": "5 minutes"},
            },
            "line": {
                "use": "files",
                "with": {**read, "path": "./rules", "schema": "rule STRING, text STRING, n INT"},
            },
        },
        operators={
            "rule": {
                "use": "changelog",
                "from": "line",
                "with": {"key": ["rule"], "sequence": "n"},
            },
            "fraud": {
                "use": "match_patterns",
                "from": {"input": "payment", "patterns": "rule"},
                "with": {**options, "text": "text", "measures": {"smalls": "count(small)"}},
            },
        },
        sinks={
            _sink(name): pipeline.sink(_sink(name), name) for name in ("fraud", "fraud.rejected")
        },
    )
    return made


@pytest.mark.in_turn
def test_patterns_that_are_rows(ruled):
    """Pass: they are there before the first payment; each match with its rule; what is no pattern is refused once."""
    ruled.pipeline.run()
    found = [(r["card"], r["rule"], r["match_start"][11:16], r["smalls"]) for r in ruled.rows()]
    assert sorted(found) == [("x", "probe", "10:00", 3), ("x", "twice", "10:01", 2)]
    (refused,) = ruled.rows("fraud.rejected")
    assert "there is no 'huge' in `define`: " in refused["reason"]


def explained(pipeline, *more):
    """Return what `mainstem match explain` tells."""
    given = ["explain", str(pipeline.file), "fraud", *more]
    ended = CliRunner().invoke(app, given, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.output


@pytest.mark.in_turn
def test_what_became_of_rows_is_explained(payments):
    """Pass: each row of a key with its variables, what began, ended and matched with it, and why not."""
    payments.document()
    told = explained(payments.pipeline, "--key", "x")
    assert told.splitlines() == [
        "1  2026-01-01 10:00:00.000000  small",
        "    begins 1: small",
        "2  2026-01-01 10:01:00.000000  small",
        "    1: small small",
        "    begins 2: small",
        "3  2026-01-01 10:02:00.000000  small",
        "    1: small small small",
        "    2: small small",
        "    begins 3: small",
        "4  2026-01-01 10:04:00.000000  -",
        "    match 1: small small small large (rows 1, 2, 3, 4)",
        "    2 ends: a match has taken its rows",
        "    3 ends: no small (amount < 100)",
        "5  2026-01-01 10:30:00.000000  small",
        "    begins 5: small",
        "5 is over after 0:10:00: small (rows 5)",
    ]
    told = explained(payments.pipeline, "--key", "y", "--format", "json")
    rows = [json.loads(line) for line in told.splitlines()]
    assert rows[0]["lines"] == ["begins 1: small"]
    assert rows[1]["lines"] == ["1 ends: no small (amount < 100)"]
    large = (
        "no large (amount > 1000 AND amount > 10 * avg(small.amount)): avg(small.amount) is 55.00"
    )
    assert rows[3]["at"] == "2026-01-01T10:04:00+00:00"
    payments.feed(("y", "10:05", 500))
    last = json.loads(
        explained(payments.pipeline, "--key", "y", "--format", "json").splitlines()[4]
    )
    assert last["lines"][0] == f"3 ends: no small (amount < 100); {large}"


def test_a_pattern_without_values_is_explained(payments):
    """Pass: one whose definitions look at no rows before."""
    define = {"small": "amount < 100", "large": "amount > 1000"}
    payments.document(pattern="small large", define=define, measures={})
    told = explained(payments.pipeline, "--key", "x")
    assert "match 1: small large (rows 3, 4)" in told


def test_a_pattern_that_is_a_row_is_explained(ruled):
    """Pass: the one that is given; what is none is told, and that one must be given."""
    told = explained(ruled.pipeline, "--key", "x", "--pattern", "small large")
    assert "match 1: small large (rows 3, 4)" in told
    for more, message in (
        ([], "--pattern TEXT"),
        (["--pattern", "small ("], "--pattern: expected"),
    ):
        given = ["explain", str(ruled.pipeline.file), "fraud", "--key", "x", *more]
        ended = CliRunner().invoke(app, given)
        assert message in str(ended.exception)
