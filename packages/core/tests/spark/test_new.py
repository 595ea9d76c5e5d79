"""What `mainstem new` writes works as it is: the pipeline runs, and each plugin's own tests pass."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from mainstem.cli.new import new_pipeline, new_plugin
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan
from mainstem.run.runner import run
from mainstem.testing.running import run_tests

CORE = Path(__file__).parents[2]
KIT = CORE.parent / "testkit"
KINDS = get_args(get_type_hints(new_plugin)["kind"])
BIN = Path(sys.executable).parent
pytestmark = pytest.mark.usefixtures("quick_java")


def tool(name: str) -> str:
    """Return the path of a development tool, beside this Python or on PATH; skip without it."""
    path = shutil.which(name, path=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    if path is None:
        pytest.skip(f"NOT TESTED: {name} is not installed (pip install {name})")
    return path


def command(*arguments: object, cwd: Path, **env: str) -> str:
    """Run a command and return what it prints; fail with that if it ends with another code than 0."""
    # A tox around these tests is not the tox within them.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("TOX")}
    result = subprocess.run(
        [*map(str, arguments)],
        cwd=cwd,
        env={**outside, **env},
        capture_output=True,
        text=True,
        timeout=390,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def install_by_hand(project: Path, site: Path) -> None:
    """Write what an installer would write for an editable install, with no package index."""
    given = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    info = site / f"{given['name'].replace('-', '_')}-{given['version']}.dist-info"
    info.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: {given['name']}\nVersion: {given['version']}\n"
    for requirement in given["dependencies"]:
        text += f"Requires-Dist: {requirement}\n"
    (info / "METADATA").write_text(text)
    lines = []
    for group, words in given["entry-points"].items():
        lines += [f"[{group}]", *(f"{word} = {module}" for word, module in words.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def rows(folder: Path) -> list[dict[str, object]]:
    """Return the rows that a files sink wrote."""
    files = folder.glob("*/*.json")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.in_turn
def test_a_new_pipeline_runs_and_goes_on_with_new_files(tmp_path, monkeypatch):
    """Pass: large orders and the refused line of the sample; a second run adds the new file alone."""
    monkeypatch.delenv("INCOMING", raising=False)
    folder = tmp_path / "orders"
    files = new_pipeline("large.orders-2", folder)
    assert sorted(files) == sorted(path for path in folder.rglob("*") if path.is_file())
    assert {path.name for path in files} >= {"README.md", ".gitignore", "orders-1.jsonl"}
    assert all(result.passed for result in run_tests(folder / "pipeline.test.yaml"))
    assert not (folder / "orders").exists()
    plan = make_plan(folder / "pipeline.yaml")
    assert (plan.pipeline, plan.warnings) == ("large.orders-2", ())
    run(plan)
    assert {row["id"]: row["euros"] for row in rows(folder / "orders")} == {
        "a1": 129.0,
        "a3": 100.0,
        "a5": 990.5,
    }
    assert [row["reason"] for row in rows(folder / "rejected")] == ["cents is no BIGINT"]
    second = tmp_path / "orders-2.jsonl"
    second.write_text('{"id": "b1", "city": "Bonn", "cents": 20000}\n')
    second.rename(folder / "incoming" / "orders-2.jsonl")
    run(plan)
    assert sorted(str(row["id"]) for row in rows(folder / "orders")) == ["a1", "a3", "a5", "b1"]


def test_what_a_new_pipeline_makes_is_ignored_by_git(tmp_path):
    """Pass: after its folders were made, git sees the files that were written and no others."""
    git = tool("git")
    files = new_pipeline("orders", tmp_path / "orders")
    folder = tmp_path / "orders"
    for made in ("checkpoints", "orders", ".orders.staging", "rejected", ".rejected.staging"):
        (folder / made).mkdir()
        (folder / made / "file").touch()
    command(git, "init", "--quiet", cwd=folder)
    shown = command(git, "status", "--short", "--untracked-files=all", cwd=folder)
    assert sorted(shown.split()[1::2]) == sorted(str(file.relative_to(folder)) for file in files)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_tests_of_a_new_plugin_pass_under_tox(tmp_path):
    """Pass: `tox` as generated, told where core and kit are: built, installed, and it conforms."""
    tox, uv = tool("tox"), tool("uv")
    new_plugin("source", "tick", tmp_path / "tick")
    # What uv has in its cache is enough, if it is all there: asking the index may build pyspark anew.
    wanted = ("pip", "install", "--offline", "--quiet", CORE, KIT, "hatchling>=1.26")
    subprocess.run([uv, "venv", "--quiet", tmp_path / "trial"], check=True)
    trial = [uv, *map(str, wanted), "--python", tmp_path / "trial"]
    cached = subprocess.run(trial, capture_output=True, check=False).returncode == 0
    offline = {"UV_OFFLINE": "1"} if cached else {}
    trees = {"MAINSTEM_CORE": str(CORE), "MAINSTEM_TESTKIT": str(KIT)}
    shown = command(tox, "run", cwd=tmp_path / "tick", **trees, **offline)
    assert "congratulations" in shown
    assert "source tick (mainstem-tick 0.1.0): conforms" in shown


def run_the_tests_of_new_plugins(folder, *arguments):
    """Run the tests of a new plugin of each kind on one Spark session; return what they print."""
    words = {"source": "tick", "sink": "jots", "operator": "tidy_text"}
    for kind in KINDS:
        new_plugin(kind, words[kind], folder / kind)
        install_by_hand(folder / kind, folder / "site")
    sources = [folder / "site", *(folder / kind / "src" for kind in KINDS)]
    return command(
        *(sys.executable, "-m", "pytest", "-q", "-rN", "--rootdir", folder, *arguments),
        *(folder / kind / "tests" for kind in KINDS),
        cwd=folder,
        PYTHONPATH=os.pathsep.join(map(str, sources)),
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_tests_of_new_plugins_pass(tmp_path):
    """Pass: their own ones, and of the standard ones those of options, columns and types."""
    own = "each_number or one_file or trimmed"
    shown = run_the_tests_of_new_plugins(
        tmp_path, "-k", f"{own} or wrong_option or announced or type"
    )
    assert shown.splitlines()[-1].startswith("10 passed, ")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_new_plugins_conform(tmp_path):
    """Pass: source, sink and operator, as they were written."""
    shown = run_the_tests_of_new_plugins(tmp_path)
    assert "source tick (mainstem-tick 0.1.0): conforms" in shown
    assert "sink jots (mainstem-jots 0.1.0): conforms" in shown
    assert "operator tidy_text (mainstem-tidy-text 0.1.0): conforms" in shown


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.in_turn
def test_the_example_of_a_new_plugin_is_right(tmp_path, kind):
    """Pass: `mainstem validate` takes it; the word is the one that was asked for."""
    new_plugin(kind, "a_word", tmp_path / "project")
    install_by_hand(tmp_path / "project", tmp_path / "site")
    path = os.pathsep.join(map(str, [tmp_path / "site", tmp_path / "project" / "src"]))
    mainstem = (sys.executable, "-m", "mainstem")
    folder = tmp_path / "project"
    assert "right (" in command(*mainstem, "validate", "example.yaml", cwd=folder, PYTHONPATH=path)
    shown = command(*mainstem, "plugins", "show", "a_word", cwd=folder, PYTHONPATH=path)
    assert shown.startswith(f"{kind} a_word  (mainstem-a-word 0.1.0)\n")
    assert "broken" not in shown


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["x", "a_word_of_thirty_letters_in_all"[:30]])
def test_a_new_plugin_has_no_placeholder_left_and_is_formatted(tmp_path, kind, word):
    """Pass: ruff, by the rules of this repository and by the project's own, finds nothing."""
    files = new_plugin(kind, word, tmp_path)
    text = "".join(f"{path}\n{path.read_text()}" for path in files)
    assert [
        p
        for p in ("newword", "NewWord", "newkind", "newcore", "newtestkit", ".template")
        if p in text
    ] == []
    rules = CORE.parents[1] / "pyproject.toml"
    ruff = tool("ruff")
    for config in (rules, tmp_path / "pyproject.toml"):
        command(ruff, "format", "--no-cache", "--check", "--config", config, ".", cwd=tmp_path)
        command(ruff, "check", "--no-cache", "--config", config, ".", cwd=tmp_path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Hello", "Did you mean 'hello'"),
        ("my-word", "Did you mean 'my_word'"),
        ("2fast", "Did you mean 'fast'"),
        ("", "Expected a lower-case letter"),
        ("a__b", "Did you mean 'a_b'"),
        ("../up", "Did you mean 'up'"),
        ("true", "Expected a lower-case letter"),
        ("x" * 31, "at most 30"),
        ("word\n", "Did you mean 'word'"),
        ("files", "already brought by mainstem"),
        ("aggregate", "already brought by mainstem-operators-windows"),
        ("operators_windows", "already brought by mainstem-operators-windows"),
    ],
)
def test_a_name_that_is_no_word_or_is_taken_is_refused(tmp_path, name, words):
    """Pass: exit code 2, words that help, and no folder."""
    with pytest.raises(DocumentError, match=words) as failure:
        new_plugin("source", name, tmp_path / "project")
    assert failure.value.exit_code == 2
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize("name", ["Orders", "_orders", "", "a b", "a/b", "x" * 101, "a\n"])
def test_a_name_that_no_pipeline_can_have_is_refused(tmp_path, name):
    """Pass: exit code 2 and no folder; names of digits or of YAML's own words are fine."""
    with pytest.raises(DocumentError, match="can't be the name of a pipeline") as failure:
        new_pipeline(name, tmp_path / "project")
    assert failure.value.exit_code == 2
    assert not (tmp_path / "project").exists()
    for number, fine in enumerate(("2024", "null", "1.5", "x" * 100)):
        new_pipeline(fine, tmp_path / str(number))
        assert make_plan(tmp_path / str(number) / "pipeline.yaml").pipeline == fine


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    """Pass: refused in words, nothing written; a file in the way too; an empty folder is fine."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(DocumentError, match="is not empty"):
        new_pipeline("orders", tmp_path / "full")
    with pytest.raises(DocumentError, match="is not empty"):
        new_plugin("sink", "jots", tmp_path / "full")
    with pytest.raises(DocumentError, match="can't write into"):
        new_pipeline("orders", tmp_path / "full" / "mine.txt")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
    assert (tmp_path / "full" / "mine.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert new_pipeline("orders", tmp_path / "empty")
