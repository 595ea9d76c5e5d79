"""The docs tell the truth: what they print runs, and what is public is in them."""

from __future__ import annotations

import inspect
import re
import runpy
import tomllib
from pathlib import Path

import mainstem
import pytest
from mainstem import hookspecs
from mainstem.catalogue import CATALOGUE
from mainstem.contracts.ability import ABILITIES
from mainstem.discovery import GROUPS
from mainstem.plan.build import make_plan
from mainstem.registry import Registry

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = {page.name: page.read_text() for page in PAGES}
BLOCKS = [
    (page.name, number, language, block)
    for page in PAGES
    for number, (language, block) in enumerate(
        re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    )
]


@pytest.mark.parametrize(
    ("page", "text"), [(p, b) for p, _, language, b in BLOCKS if language == "yaml" and "pipeline:" in b]
)  # fmt: skip
def test_every_document_in_the_docs_is_right(page, text, tmp_path, monkeypatch):
    """Pass: `validate` takes it as it is printed."""
    for name in re.findall(r"\$\{env:(\w+)\}", text):
        monkeypatch.setenv(name, "value")
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    make_plan(file)


def test_the_readme_shows_the_document_that_the_demo_runs():
    """Pass: word for word."""
    assert (ROOT / "examples" / "flights" / "flights.yaml").read_text() in TEXT["README.md"]


def test_the_plugin_in_the_docs_is_the_one_that_is_run():
    """Pass: module and entry point are printed as they are in examples/plugin-hello."""
    page = TEXT["writing-a-plugin.md"]
    assert (ROOT / "examples" / "plugin-hello" / "mainstem_hello.py").read_text() in page
    assert (ROOT / "examples" / "plugin-hello" / "mainstem_stubborn.py").read_text() in page
    entry = '[project.entry-points."mainstem.sources"]\nhello = "mainstem_hello"\n'
    assert entry in page
    assert entry in (ROOT / "examples" / "plugin-hello" / "pyproject.toml").read_text()


def test_the_suite_in_the_docs_is_the_one_that_is_run():
    """Pass: printed as it is in examples/plugin-hello."""
    suite = (ROOT / "examples" / "plugin-hello" / "tests" / "test_hello.py").read_text()
    assert suite in TEXT["testing-a-plugin.md"]


def test_the_test_of_the_registry_uses_the_same_plugin():
    """Pass: the code in test_registry.py is that of the example."""
    code = (ROOT / "examples" / "plugin-hello" / "mainstem_hello.py").read_text()
    assert code in (ROOT / "packages" / "core" / "tests" / "test_registry.py").read_text()


def test_every_hook_stands_in_the_docs_with_its_arguments():
    """Pass: name and signature of each hookspec."""
    page = TEXT["writing-a-plugin.md"]
    for name, function in vars(hookspecs).items():
        if name.startswith("mainstem_"):
            arguments = ", ".join(inspect.signature(function).parameters)
            assert f"`{name}({arguments})`" in page


def test_every_ability_and_every_public_name_is_explained():
    """Pass: abilities are in the docs; every exported class and function has a docstring."""
    page = TEXT["writing-a-plugin.md"]
    assert [name for name in ABILITIES if f"`{name}`" not in page] == []
    silent = [
        name
        for name in mainstem.__all__
        if (inspect.isclass(value := getattr(mainstem, name)) or inspect.isfunction(value))
        and not inspect.getdoc(value)
    ]
    assert silent == []


def test_what_is_said_to_be_shown_is_in_the_repository():
    """Pass: every test that a component names as its proof is there."""
    named = {
        path
        for file in ROOT.glob("packages/*/src/**/*.py")
        for path in re.findall(r"packages/[\w/-]+/test_\w+\.py", file.read_text())
    }
    assert len(named) >= 20
    assert sorted(path for path in named if not (ROOT / path).is_file()) == []


def test_every_word_and_every_option_has_an_entry_and_an_example():
    """Pass: docs/components.md is what the models say today; examples use each word of each kind."""
    maker = runpy.run_path(str(ROOT / "docs/make_components.py"))
    assert TEXT["components.md"] == maker["page"](), "run docs/make_components.py"
    shown = maker["examples"]()
    words = [(w.kind, w.name) for w in Registry().words if w.kind in GROUPS]
    assert len(words) > 100
    assert [each for each in words if each not in shown] == []


def test_every_word_of_the_workspace_is_in_the_catalogue():
    """Pass: whoever uses a word without its package is told what to install; nothing else is listed."""
    kinds = {group: kind for kind, group in GROUPS.items()}
    words = {
        (kinds[group], word): project["name"]
        for file in (ROOT / "packages").glob("*/pyproject.toml")
        if (project := tomllib.loads(file.read_text())["project"])["name"] != "mainstem"
        for group, entries in project.get("entry-points", {}).items()
        if group in kinds
        for word in entries
    }
    assert words == CATALOGUE


def test_the_cores_extras_bring_the_plugins():
    """Pass: one for each distribution of the catalogue, named after it, and no other."""
    project = tomllib.loads((ROOT / "packages/core/pyproject.toml").read_text())["project"]
    extras = {extra: brought for extra, (brought,) in project["optional-dependencies"].items()}
    assert {brought.partition(">")[0] for brought in extras.values()} == set(CATALOGUE.values())
    assert all(brought.partition(">")[0].endswith(f"-{extra}") for extra, brought in extras.items())


def test_the_tests_that_guarantees_rest_on_are_there():
    """Pass: every test file that the page names is one of the repository's."""
    paths = re.findall(r"(?:packages/[\w/-]+|tests)/test_\w+\.py", TEXT["guarantees.md"])
    assert sorted(path for path in paths if not (ROOT / path).is_file()) == []
    named = re.findall(r"test_\w+\.py", TEXT["guarantees.md"])
    there = {file.name for file in ROOT.glob("packages/*/tests/**/test_*.py")}
    there |= {file.name for file in ROOT.glob("tests/test_*.py")}
    assert len(named) > 30
    assert sorted({*named} - there) == []


def test_links_lead_somewhere():
    """Pass: every relative link names a file that is there."""
    more = ("CONTRIBUTING.md", "benchmarks/*.md", "examples/*/README.md", "packages/*/README.md")
    for page in [*PAGES, *(page for pattern in more for page in ROOT.glob(pattern))]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_benchmark_is_listed():
    """Pass: the table of benchmarks has each script that can be run."""
    scripts = (ROOT / "benchmarks").glob("*.py")
    runs = {file.name for file in scripts if '__name__ == "__main__"' in file.read_text()}
    listed = re.findall(r"^\| `(\w+\.py)`", (ROOT / "benchmarks/README.md").read_text(), re.M)
    assert sorted(listed) == sorted(runs)


def test_every_package_carries_the_licence():
    """Pass: each distribution's folder has it, word for word."""
    text = (ROOT / "LICENSE").read_text()
    for project in (ROOT / "packages").glob("*/pyproject.toml"):
        assert (project.parent / "LICENSE").read_text() == text, project.parent.name
