"""The documents that show how each word is used: they are right, and their own tests pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from mainstem.plan.build import make_plan
from mainstem.testing.running import run_tests
from ruamel.yaml import YAML

FOLDER = Path(__file__).parent.parent / "examples/words"
DOCUMENTS = sorted(file for file in FOLDER.glob("*.yaml") if ".test." not in file.name)
TESTS = sorted(FOLDER.glob("*.test.yaml"))
#: Of documents that have no tests of their own.
ENV = {
    "KAFKA": "anywhere:9092",
    "DATABASE_URL": "sqlite:///anywhere.db",
    "KEYS_URL": "sqlite:///keys.db",
    "MASTER_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    "NATS_URL": "nats://anywhere",
    "REDIS_URL": "redis://anywhere",
    "OPENLINEAGE_API_KEY": "key",
}


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: file.stem)
def test_each_document_is_right(file, monkeypatch):
    """Pass: `validate` takes it; its tests say what its variables hold."""
    tests = file.with_name(f"{file.stem}.test.yaml")
    said = YAML(typ="safe").load(tests) if tests.exists() else {"env": ENV}
    for name, value in said.get("env", {}).items():
        monkeypatch.setenv(name, value)
    make_plan(file)


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem.removesuffix(".test"))
@pytest.mark.in_turn
def test_their_own_tests_pass(file):
    """Pass: `mainstem test`, without any system."""
    results = list(run_tests(file))
    assert results
    assert [(each.error, each.differences) for each in results] == [("", [])] * len(results)
