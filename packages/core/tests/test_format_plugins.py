"""Formats of others: what is wrong with them is told as theirs, and does no harm to what is beside."""

from __future__ import annotations

import pytest
from mainstem import DocumentError, registry
from mainstem.builtin.decode import Decode
from mainstem.discovery import Word, installed_words
from mainstem.document.schema import json_schema
from mainstem.plan.build import make_plan
from mainstem.registry import Registry

MODULE = """
from dataclasses import dataclass
from mainstem import Decoder, Format, Needs, Options, hookimpl, option
from mainstem.columns import Column


class Plain(Options):
    pass


class Clash(Options):
    schema_: str = option("x", alias="schema", description="Has another's name.")


class Crashing(Decoder):
    options: Plain

    def columns(self, schema):
        raise KeyError("lost")

    def reader(self, schema):
        raise NotImplementedError


class Odd(Crashing):
    def columns(self, schema):
        return [Column("_output", "string")]


class Clashing(Crashing):
    options: Clash


class Needing(Odd):
    def columns(self, schema):
        return [Column("a", "string")]

    def needs(self):
        return Needs(packages=("its:jar:1",))


def made(name, half):
    return type(name, (Format,), {"__doc__": "One.", "decoder": half})


@hookimpl
def mainstem_formats():
    halves = {"crashing": Crashing, "odd": Odd, "clashing": Clashing, "needing": Needing}
    return {name: made(name, half) for name, half in halves.items()}
"""
WORDS = ("crashing", "odd", "clashing", "needing")


@pytest.fixture
def _others(tmp_path, monkeypatch):
    (tmp_path / "others_formats.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    theirs = [Word("format", name, "others", "2.0", "others_formats") for name in WORDS]
    theirs.append(Word("format", "broken", "others", "2.0", "nowhere_to_be_found"))
    words = [*installed_words(), *theirs]
    monkeypatch.setattr(registry, "installed_words", lambda: words)


def document(**given):
    return {
        "pipeline": "p",
        "sources": {"lines": {"use": "files", "with": {"path": "in", "format": "message"}}},
        "operators": {"row": {"use": "decode", "from": "lines", "with": given}},
        "sinks": {"out": {"use": "console", "from": "row"}},
    }


@pytest.mark.usefixtures("_others")
@pytest.mark.parametrize(
    ("given", "told", "code"),
    [
        (
            {"format": "crashing"},
            r"KeyError: 'lost' \(.*others_formats.py.*This is a bug of others",
            3,
        ),
        ({"format": "odd"}, r"format: '_output': names that begin with _ are reserved", 2),
        ({"format": "clashing"}, r"format: Clashing: the operator has the option schema too", 3),
        ({"format": "broken"}, r"format: others 2.0 can't be imported for format 'broken'", 3),
        ({"format": "raw"}, r"format: raw can't be read", 2),
        ({"format": "jsno"}, r"format: no installed distribution .* Did you mean 'json'", 3),
        ({"format": "json", "separator": ";"}, r"separator: unknown key 'separator'", 2),
        ({"schema": "a INT", "separator": ";"}, r"key 'format' is missing", 2),
    ],
)
def test_what_is_wrong_is_told_where_it_is(given, told, code):
    """Pass: at the option, as a fault of the distribution whose it is."""
    with pytest.raises(DocumentError, match=told) as failed:
        make_plan(document(**given))
    assert {problem.exit_code for problem in failed.value.problems} == {code}


@pytest.mark.usefixtures("_others")
def test_a_bad_format_leaves_the_schema_of_documents_whole():
    """Pass: it is made, knows all words, and the options of those that work."""
    schema = json_schema(Registry())
    cases = [
        case for case in schema["$defs"]["OperatorNode"]["allOf"]
        if case["if"]["properties"]["use"] == {"const": "decode"}
    ]  # fmt: skip
    by_format = {
        case["if"]["properties"]["with"]["properties"]["format"]["const"]: case["then"][
            "properties"
        ]["with"]
        for case in cases
        if "with" in case["if"]["properties"]
    }
    assert "separator" in by_format["csv"]["properties"]
    assert "separator" not in by_format["json"]["properties"]
    (every,) = (case for case in cases if "with" not in case["if"]["properties"])
    assert all(word in str(every["then"]) for word in (*WORDS, "broken", "json"))


@pytest.mark.usefixtures("_others")
def test_what_a_format_needs_the_session_has():
    """Pass: the operator that uses it needs the same."""
    given = {"format": "needing"}
    made = Decode(Decode.options_for(given, Registry().component).model_validate(given))
    assert made.needs().packages == ("its:jar:1",)
