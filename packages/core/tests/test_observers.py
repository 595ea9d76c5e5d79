"""What is told of a run by a document's observers, and what is not."""

from __future__ import annotations

import logging
import sys
from functools import partial

import pytest
from mainstem import DocumentError
from mainstem.discovery import Word, installed_words
from mainstem.observation.observers import Observers
from mainstem.plan.build import make_plan
from mainstem.plan.derive import derive
from mainstem.plan.rendering import as_json, as_text
from mainstem.registry import Registry

TOLD = '''
from mainstem import Observer, Options, Secret, option
from mainstem.hookspecs import hookimpl


class TellerOptions(Options):
    """Options."""

    token: Secret | None = option(None, description="A secret.")
    fails: bool = option(False, description="Whether it fails.")


class Teller(Observer):
    """Remembers what it is told."""

    options: TellerOptions

    def __init__(self, options):
        super().__init__(options)
        self.told = []

    def started(self, plan):
        self._tell("started", plan.pipeline)

    def batch(self, facts):
        self._tell("batch", facts)

    def ended(self, plan, error):
        self._tell("ended", error)

    def _tell(self, *what):
        if self.options.fails:
            raise RuntimeError(f"no, and here is {self.options.token.get_secret_value()}")
        self.told.append(what)


@hookimpl
def mainstem_observers():
    return {"teller": Teller}
'''


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Return what plans a document with observers, of which `teller` is one."""
    (tmp_path / "told_observer.py").write_text(TOLD)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry(
        [*installed_words(), Word("observer", "teller", "told", "1", "told_observer")]
    )
    yield partial(planned, registry)
    sys.modules.pop("told_observer", None)


def planned(registry, observers):
    lines = {"use": "files", "with": {"path": "in", "format": "message"}}
    return make_plan(
        {
            "pipeline": "p",
            "sources": {"lines": lines},
            "sinks": {"out": {"use": "console", "from": "lines"}},
            "observers": observers,
        },
        registry,
    )


def test_observers_of_the_document_are_told_in_its_order(plan):
    """Pass: of the start, of each batch, and with what error a run ends; of nothing else."""
    made = plan({"one": {"use": "teller"}, "two": {"use": "teller"}})
    observers = Observers(made)
    observers.started(made)
    observers.batch({"event": "batch"})
    error = ValueError()
    observers.ended(made, error)
    assert [*made.observers] == ["one", "two"]
    for each in made.observers.values():
        assert each.told == [("started", "p"), ("batch", {"event": "batch"}), ("ended", error)]


def test_one_that_fails_ends_nothing_and_hides_nothing_from_others(plan, caplog):
    """Pass: the log says which and why, without the secret, and the next one is told all the same."""
    made = plan(
        {
            "bad": {"use": "teller", "with": {"fails": True, "token": "s3cret"}},
            "good": {"use": "teller"},
        }
    )
    with caplog.at_level(logging.WARNING, "mainstem"):
        Observers(made).started(made)
    assert made.observers["good"].told == [("started", "p")]
    assert "observer bad, started: RuntimeError: no, and here is" in caplog.text
    assert "s3cret" not in caplog.text


def test_one_that_is_interrupted_keeps_nothing_from_others(plan):
    """Pass: a signal while one waits for its server reaches the run, and the next observer has been told."""
    made = plan({"one": {"use": "teller"}, "two": {"use": "teller"}})

    def interrupted(*_):
        raise KeyboardInterrupt

    made.observers["one"].ended = interrupted
    with pytest.raises(KeyboardInterrupt):
        Observers(made).ended(made, None)
    assert made.observers["two"].told == [("ended", None)]


def test_what_is_wrong_with_an_observer_is_told_with_all_else(plan):
    """Pass: an unknown word, an unknown option and a wrong name, each at its place."""
    with pytest.raises(DocumentError) as failure:
        plan({"a": {"use": "nosuchword"}, "b": {"use": "teller", "with": {"fail": True}}})
    text = str(failure.value)
    assert "observers.a.use" in text
    assert "observers.b.with" in text
    assert "fails" in text


def test_a_plan_that_is_derived_tells_nobody(plan, tmp_path):
    """Pass: a replay, a preview and a test have none."""
    made = plan({"one": {"use": "teller"}})
    assert made.observers
    assert not derive(made, made.sinks(), checkpoint=tmp_path).observers


def test_a_plan_shows_its_observers(plan):
    """Pass: with their words, in text and JSON; a plan without any says nothing of them."""
    made = plan({"one": {"use": "told:teller"}})
    assert "observers: told of each run\n  one: told:teller" in as_text(made)
    assert as_json(made)["observers"] == [{"name": "one", "use": "told:teller"}]
    assert "observers" not in as_text(plan({}))
