"""What `table_table_join` refuses, and what it announces, before Spark starts."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from mainstem import DocumentError
from mainstem.plan.build import make_plan
from mainstem.plan.model import Stream
from ruamel.yaml import YAML


def table(name: str, schema: str, key: list[str], sequence: str = "n") -> dict[str, Any]:
    read = {"path": "./in", "format": "jsonlines", "schema": schema}
    return {
        "sources": {name: {"use": "files", "with": read}},
        "operators": {
            f"{name}_table": {
                "use": "changelog",
                "from": name,
                "with": {"key": key, "sequence": sequence},
                "on_rejected": "drop",
            }
        },
    }


ORDERS = table("orders", "id BIGINT, part INT, customer_id INT, note STRING, n BIGINT", ["id"])
CUSTOMERS = table("customers", "customer_id BIGINT, note STRING, n BIGINT", ["customer_id"])
BY_REFERENCE: dict[str, Any] = {"foreign_key": "customer_id", "take": {"customer": "note"}}


def document(
    left: dict[str, Any] = ORDERS, right: dict[str, Any] = CUSTOMERS, **options: Any
) -> dict[str, Any]:
    made: dict[str, Any] = {"pipeline": "test", "sources": {}, "operators": {}}
    for each in copy.deepcopy((left, right)):
        made["sources"] |= each["sources"]
        made["operators"] |= each["operators"]
    names = [f"{next(iter(each['sources']))}_table" for each in (left, right)]
    made["operators"]["joined"] = {
        "use": "table_table_join",
        "from": {"left": names[0], "right": names[1]},
        "with": options,
        "on_rejected": "drop",
    }
    made["sinks"] = {"out": {"use": "console", "from": "joined"}}
    return made


#: Another table of the key `id`.
TEXTS = table("texts", "id STRING, body STRING, m BIGINT", ["id"], "m")
PARTS = table("parts", "id BIGINT, part INT, price INT, m DOUBLE", ["id", "part"], "m")


@pytest.mark.parametrize(
    ("made", "key", "words"),
    [
        (document(), "with", "exactly one of `on` and `foreign_key`"),
        (document(on=["id"], foreign_key="customer_id"), "with", "exactly one of"),
        (document(foreign_key="customer_id", join="full"), "with", "`join: full` needs `on`"),
        (document(on=["customer_id"]), "with.on", "the left table's key is id, not customer_id"),
        (document(on=["id"]), "with.on", "the right table's key is customer_id, not id"),
        (document(on={"id": "customer_id"}), "with", "the result would have two columns 'note'"),
        (document(foreign_key=["customer_id", "n"], take=[]),
         "with.foreign_key", "2 expressions, and the right table's key has 1"),
        (document(foreign_key="customer_id", take=["notes"]), "with.take", "no column 'notes'"),
        (document(foreign_key="customer_id", take={"_x": "note"}), "with.take", "reserved"),
        (document(foreign_key="customer_id"), "with", "the result would have two columns 'note'"),
        (document(right=TEXTS, on=["id"]), "with.on", "the key `id` bigint, the right one `id` string"),
        (document(right=PARTS, foreign_key=["id", "part"], take=["price"]),
         "with", "the right changelog's sequence is DOUBLE"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused_with_its_key(made, key, words):
    """Pass: exactly one problem, at that key, in those words."""
    with pytest.raises(DocumentError) as failure:
        make_plan(made)
    (problem,) = failure.value.problems
    assert problem.key.startswith(f"operators.joined.{key}".removesuffix(".with"))
    assert words in problem.message


def test_a_changelog_without_a_sequence_is_refused():
    """Pass: the error says that the batch's number is no sequence; below a relay it is one."""
    made = document(**BY_REFERENCE)
    counted = {"by": ["customer_id"], "columns": {"note": "max(note)"}, "emit": "changes"}
    made["operators"]["customers_table"] = {
        "use": "aggregate",
        "from": "customers",
        "with": counted,
    }
    assert len(make_plan(made).relays) == 1
    made["operators"]["customers_table"]["relay"] = False
    with pytest.raises(DocumentError, match="no sequence but the batch's number"):
        make_plan(made)


def test_the_result_is_a_changelog_of_the_left_key_with_images():
    """Pass: columns of both tables, the right ones by new names; key, sequence and pre-images as promised."""
    plan = make_plan(document(**BY_REFERENCE, join="left"))
    node = plan.nodes["joined"]
    assert str(node.shape) == (
        "changelog(id BIGINT, part INT, customer_id INT, note STRING, n BIGINT, customer STRING)"
    )
    shape: Any = node.shape
    assert (shape.key, shape.sequence, shape.preimages) == (("id",), "_commit_version", True)
    assert node.identity == ("id", "_commit_version", "_change_type")
    assert set(node.outputs) == {"late_changes", "rejected"}
    assert node.state is not None
    assert node.state.grows


def test_columns_that_tell_the_key_once_more_are_left_out():
    """Pass: what the tables are joined on stands once; a key that is not a left column stays."""
    names = {
        foreign_key: make_plan(
            document(
                right=table("parts", "part INT, price INT, m BIGINT", ["part"], "m"),
                foreign_key=foreign_key,
                **more,
            )
        ).shape(Stream("joined"))
        for foreign_key, more in (("part", {}), ("part + 1", {"take": ["price"]}))
    }
    assert names["part"].names[-2:] == ("price", "m")
    assert names["part + 1"].names[-1:] == ("price",)


def test_two_queries_may_not_run_the_join_twice():
    """Pass: what comes hangs on how the input is cut, so a second copy of the state is an error."""
    made = document(**BY_REFERENCE)
    made["sinks"]["own"] = {"use": "console", "from": "joined", "query": "own"}
    assert len(make_plan(made).relays) == 1
    made["operators"]["joined"]["relay"] = False
    with pytest.raises(DocumentError, match="the two would disagree"):
        make_plan(made)


def test_the_example_of_the_readme_is_a_valid_document():
    """Pass: with sources that have the columns it names, it is planned; the view has the customer's name."""
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    example = (
        readme.partition("## `table_table_join`")[2].partition("```yaml\n")[2].partition("```")[0]
    )
    made: dict[str, Any] = YAML(typ="safe", pure=True).load(example)
    schemas = {
        "orders": "order_id INT, customer_id INT, version BIGINT",
        "customers": "customer_id INT, name STRING, version BIGINT",
    }
    for name, schema in schemas.items():
        made.setdefault("sources", {}).update(table(name, schema, ["x"])["sources"])
    sinks = {"out": {"use": "console", "from": "view"}}
    plan = make_plan({"pipeline": "test", **made, "sinks": sinks})
    assert plan.shape(Stream("view")).names == (
        "order_id", "customer_id", "version", "customer_name",
    )  # fmt: skip


def test_the_right_columns_are_named_as_their_table_has_them():
    """Pass: options may write them in other case; what the state holds is told by the table's own names."""
    node = make_plan(document(foreign_key="customer_id", take={"Customer": "NOTE"})).nodes["joined"]
    assert node.state is not None
    assert node.state.shaped_by["take"] == {"Customer": "note"}
