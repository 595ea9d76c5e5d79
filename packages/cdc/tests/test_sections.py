"""Sections of tables, made of what a database has, and what is otherwise there."""

from __future__ import annotations

import pytest
from mainstem import PipelineError
from mainstem.columns import read_columns
from mainstem_cdc import CaptureOptions, FoundColumn, FoundTable
from mainstem_cdc.sections import _holds, differing, section, with_tables


class Options(CaptureOptions):
    port = 1
    product = "Test"

    @classmethod
    def has_reader(cls, kind):
        return True


def options(**tables):
    return Options(url="test://localhost/shop", tables=tables, folder="x")


def found(name, *columns, key=("id",), namespace="shop"):
    return FoundTable(namespace, name, key, tuple(FoundColumn(*each) for each in columns))


ID = ("id", "BIGINT", "bigint")


def test_tables_become_outputs():
    """Pass: names that can't be outputs get others, which are not taken; columns are quoted where they must be; tables that
    the document has, and those without a key, are left out."""
    given = options(orders={"key": ["id"], "schema": "id BIGINT"})
    there = [
        found("orders", ID),
        found("Order-Lines", ID, ("a b", "STRING", "text"), key=("id", "a b")),
        found("order_lines", ID),
        found("all", ID),
        found("2nd", ID),
        found("loose", ID, key=()),
        found("users", ID, namespace="other"),
        found("twice", ID, ("ID", "STRING", "text")),
        found("hidden", ID, ("_x", "STRING", "text")),
        found("dotted.name", ID),
    ]
    made, left = section(given, there, ["*"])
    assert made == {
        "order_lines": {"table": "Order-Lines", "key": ["id", "a b"], "schema": "id BIGINT, `a b` STRING"},
        "order_lines_2": {"table": "order_lines", "key": ["id"], "schema": "id BIGINT"},
        "all_table": {"table": "all", "key": ["id"], "schema": "id BIGINT"},
        "t_2nd": {"table": "2nd", "key": ["id"], "schema": "id BIGINT"},
        "users": {"table": "other.users", "key": ["id"], "schema": "id BIGINT"},
        "hidden": {"key": ["id"], "schema": "id BIGINT"},
    }  # fmt: skip
    assert left[0] == "shop.loose: left out, as it has no primary key"
    assert left[1].startswith("shop.twice: left out: ")
    assert left[2:] == [
        "shop.hidden: without columns whose names begin with _",
        "shop.dotted.name: left out, as its name can't be written",
    ]
    assert list(section(given, there, ["*rder*"])[0]) == ["order_lines", "order_lines_2"]
    assert list(section(given, there, ["other.*"])[0]) == ["users"]


def test_what_is_otherwise_is_told():
    """Pass: tables and columns that are not there, types that do not hold the database's, and keys."""
    given = options(
        orders={"key": ["id"], "schema": "id INT, total DECIMAL(10, 2), gone STRING, note STRING"},
        missing={"key": ["id"], "schema": "id INT"},
    )
    there = [
        found(
            "orders", ID, ("total", "DECIMAL(10, 3)", "numeric(10,3)"), ("note", "DATE", "date"),
            key=("id", "note"),
        ),
    ]  # fmt: skip
    assert list(differing(given, there)) == [
        "orders.id: INT in the document, bigint in the database, which is read as BIGINT",
        (
            "orders.total: DECIMAL(10,2) in the document, numeric(10,3) in the database, which is read "
            "as DECIMAL(10, 3)"
        ),
        "orders: the database has no column gone",
        "orders: key id; the primary key is id, note",
        "missing: the database has no table shop.missing",
    ]


@pytest.mark.parametrize(
    ("declared", "has", "fits"),
    [
        ("bigint", "INT", True),
        ("int", "BIGINT", False),
        ("double", "FLOAT", True),
        ("float", "DOUBLE", False),
        ("string", "DATE", True),
        ("date", "STRING", False),
        ("decimal(12,2)", "DECIMAL(10, 2)", True),
        ("decimal(12,4)", "DECIMAL(10, 4)", True),
        ("decimal(10,4)", "DECIMAL(10, 2)", False),
        ("decimal(20,0)", "BIGINT", True),
        ("decimal(20,2)", "BIGINT", False),
        ("bigint", "DECIMAL(18, 0)", True),
        ("bigint", "DECIMAL(19, 0)", False),
        ("array<string>", "ARRAY<STRING>", True),
    ],
)
def test_types_that_hold_others(declared, has, fits):
    """Pass: wider ones hold narrower ones; text holds all."""
    assert _holds(declared, read_columns(f"c {has}")[0]) is fits


MADE = {"new": {"key": ["id"], "schema": "id INT"}}
BEFORE = """\
sources:
    shop:   # four blanks
        use: test
        with:
            url: test://x
{given}            tables_after: 1  # ours
sinks: {{out: {{use: console}}}}
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", None),
        ("            tables: {}\n", "            tables:\n              new:\n"),
        (
            "            tables:\n                old:   # the first\n                    key: [id]\n",
            "                    key: [id]\n                new:\n                  key: [id]\n",
        ),
    ],
)
def test_a_document_keeps_what_it_has(tmp_path, given, expected):
    """Pass: every line that was there, with its blanks and comments, and its mode; the tables come behind those there are."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(BEFORE.format(given=given))
    file.chmod(0o640)
    with_tables(file, "shop", MADE)
    text = file.read_text()
    assert file.stat().st_mode & 0o777 == 0o640
    lines = iter(text.splitlines())
    for line in BEFORE.format(given=given.replace(" {}", "")).splitlines():
        assert line in lines, f"{line!r} is gone from\n{text}"
    assert (expected or "            tables:\n              new:\n") in text
    from ruamel.yaml import YAML

    tables = YAML(typ="safe").load(text)["sources"]["shop"]["with"]["tables"]
    assert tables["new"] == {"key": ["id"], "schema": "id INT"}


@pytest.mark.parametrize(
    "given", ["sources: {shop: {with: {url: x}}}\n", "sources:\n  shop:\n    use: x\n"]
)
def test_documents_that_are_written_otherwise_are_told(tmp_path, given):
    """Pass: nothing is changed then."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(given)
    with pytest.raises(PipelineError):
        with_tables(file, "shop", MADE)
    assert file.read_text() == given
