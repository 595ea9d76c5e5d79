"""Where things stand: no circles of imports, and options in modules of their own."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import mainstem
import pytest
from mainstem.registry import Registry

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(ROOT.glob("packages/*/src/mainstem*"))


def imports(package):
    """Return which modules of a package each of them imports at its top, for types alone too."""
    modules = {}
    for file in package.rglob("*.py"):
        parts = file.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = file
    found = {}
    for name, file in modules.items():
        wanted = {name for node in at_the_top(ast.parse(file.read_text())) for name in named(node)}
        # The package itself is where its public names are: it imports them when they are asked for.
        found[name] = {each for each in wanted if each in modules} - {name, package.name}
    return found


def at_the_top(tree):
    """Yield what is not inside of a function."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_the_top(node)


def named(node):
    """Yield what an import may mean: a module, or something in one."""
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{each.name}" for each in node.names)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_modules_import_each_other_in_a_circle(package):
    """Pass: a module can be read without those that need it."""
    found = imports(package)
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle: {' -> '.join(error.args[1])}") from None
    assert package.name in found


def test_a_circle_is_found(tmp_path):
    """Pass: of two modules, of which one needs the other for a type."""
    package = tmp_path / "mainstem_round"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("from mainstem_round.other import Other\n")
    guarded = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mainstem_round import one\n"
    )
    (package / "other.py").write_text(guarded)
    with pytest.raises(AssertionError, match="a circle: "):
        test_no_modules_import_each_other_in_a_circle(package)


def test_options_of_connectors_stand_in_modules_of_their_own():
    """Pass: of each source and sink that is a plugin's, so that a plan needs nothing else of it."""
    registry = Registry()
    beside = [
        word
        for kind in ("source", "sink")
        for word in registry.named(kind)
        if not (made := registry.component(kind, word)).__module__.startswith("mainstem.")
        if made.options_model().__module__ == made.__module__
    ]
    assert beside == []


PUBLIC = {
    "mainstem",
    *(
        f"mainstem.{topic}"
        for topic in (
            "arrays",
            "attempts",
            "changes",
            "columns",
            "commands",
            "cursors",
            "durable",
            "functions",
            "lineage",
            "losses",
            "objects",
            "patience",
            "positions",
            "sinks",
            "stopping",
            "testing",
        )
    ),
}


def test_packages_use_public_names_of_the_core():
    """Pass: what all packages but the kit import of the core is what authors of plugins may import."""
    found = {
        (str(file.relative_to(ROOT)), node.module)
        for file in ROOT.glob("packages/*/src/**/*.py")
        if file.relative_to(ROOT).parts[1] not in ("core", "testkit")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").split(".")[0] == "mainstem"
        and node.module not in PUBLIC
    }
    assert found == set()


def test_every_public_name_is_used_by_a_package():
    """Pass: none of the names of `mainstem` is of the core alone, but for what programs use."""
    files = [*ROOT.glob("packages/*/src/**/*.py"), *ROOT.glob("packages/*/tests/**/*.py")]
    used = {
        alias.name
        for file in files
        if file.relative_to(ROOT).parts[1] != "core" or "builtin" in file.parts
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "mainstem"
        for alias in node.names
    }
    assert set(mainstem.__all__) - used <= {"Pipeline", "Running"}


def test_every_crash_point_that_is_armed_is_there() -> None:
    """Pass: a test that arms a point of an old name kills nothing, and fails only when its turn comes."""
    there, made = set(), []
    armed: dict[str, str] = {}
    for file in (
        f
        for folder in ("packages", "tests", "docs", "examples")
        for f in (ROOT / folder).rglob("*")
    ):
        if file.suffix not in (".py", ".md") or not file.is_file():
            continue
        text = file.read_text()
        for by_name, name in re.findall(r'failpoint\(\s*(f?)"([^"]+)"', text):
            if by_name:
                made.append(re.sub(r"\{[^}]*\}", "[a-z.-]+", name))
            else:
                there.add(name)
        armed |= dict.fromkeys(
            re.findall(r"\b([a-z0-9-]+\.[a-z0-9-]+):\d+:[a-z]+\b", text), str(file)
        )
    assert len(armed) > 10
    missing = {n: f for n, f in armed.items() if n not in there}
    assert {n: f for n, f in missing.items() if not any(re.fullmatch(m, n) for m in made)} == {}
