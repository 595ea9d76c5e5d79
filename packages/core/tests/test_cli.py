"""The commands: exit codes, what they print, what they import, and what they never print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Annotated, Literal

import pytest
from mainstem import Options, PluginError, option
from mainstem.cli.plugins import _options as option_lines
from mainstem.cli.plugins import details
from mainstem.discovery import Word
from mainstem.registry import Registry
from pydantic import Field

SECRET = "hunter2-swordfish"
RIGHT = """\
pipeline: test
sources:
  lines: {use: files, with: {path: in, format: message}}
operators:
  row: {use: decode, from: lines, with: {format: json, schema: "k STRING"}, on_rejected: drop}
sinks:
  out: {use: console, from: row}
"""


def mainstem(*arguments, **env):
    return subprocess.run(
        [sys.executable, "-m", "mainstem", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
        timeout=60,
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text(RIGHT)
    return path


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("", "", 0, "right (3 nodes, 1 query)"),
        ("pipeline: test", "pipelin: test", 2, "Did you mean 'pipeline'?"),
        ("use: console", "use: consol", 3, "Did you mean 'console'?"),
        ("use: console", "use: nosuchword", 3, "Installed are: "),
        ("schema: ", "shema: ", 2, "pipeline.yaml:5:"),
    ],
)
def test_validate_ends_with_the_code_for_what_is_to_do(file, old, new, code, words):
    """Pass: 0 right, 2 mend the document, 3 install something; the words say what."""
    file.write_text(RIGHT.replace(old, new))
    result = mainstem("validate", file)
    assert result.returncode == code
    assert words in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.in_turn
def test_plan_has_three_forms_and_refuses_others(file):
    """Pass: text, Mermaid, JSON; anything else is a usage error."""
    assert "query lines (anchor lines, append)" in mainstem("plan", file).stdout
    assert mainstem("plan", file, "--format", "mermaid").stdout.startswith("flowchart LR")
    assert json.loads(mainstem("plan", file, "--format", "json").stdout)["pipeline"] == "test"
    assert mainstem("plan", file, "--format", "svg").returncode == 2


@pytest.mark.in_turn
def test_plugins_are_listed_and_shown(file):
    """Pass: a word of two kinds is shown as both, with options, ports and abilities."""
    assert "source       files" in mainstem("plugins").stdout
    shown = mainstem("plugins", "show", "files").stdout
    assert "source files" in shown
    assert "sink files" in shown
    assert "max_files: integer, default 1000" in shown
    shown = mainstem("plugins", "show", "decode").stdout
    assert "port input: events with value BINARY" in shown
    assert "abilities: Branching, Expressions" in shown
    missing = mainstem("plugins", "show", "decod")
    assert missing.returncode == 3
    assert "Did you mean 'decode'?" in missing.stderr


def word(kind, name, distribution="mainstem-some"):
    return Word(kind, name, distribution, "1.0", "some.plugin")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("kafka", "'kafka' is not installed. Install it: pip install mainstem-broker-kafka"),
        ("ingress", "'ingress' is a command and no component: see `mainstem ingress --help`"),
        ("ingres", "brings 'ingres'. `mainstem plugins` lists"),
        ("rat", "brings 'rat'. Did you mean 'rate'?"),
        ("other:rate", "brings 'other:rate'. Did you mean 'rate'?"),
    ],
)
def test_a_word_that_nobody_brings_is_told_with_the_next_step(asked, words):
    """Pass: what to install, or what the word is, or the nearest component."""
    registry = Registry([word("source", "rate"), word("command", "ingress")])
    with pytest.raises(PluginError) as failure:
        details(asked, registry)
    assert words in str(failure.value)


def test_options_of_which_one_kind_stands_are_shown_by_kind():
    """Pass: the kinds stand behind the option, and each with what is its own."""

    class Token(Options):
        use: Literal["token"] = option(description="A token.")
        token: str = option(description="The token.")

    class Users(Options):
        limit: int = option(5, description="How many.")
        use: Literal["users"] = option(description="Users.")

    class Whole(Options):
        verify: Annotated[Token | Users, Field(discriminator="use")] | None = option(
            None, description="Who."
        )

    assert option_lines(Whole, "") == [
        "verify: {use: token | users, ...}, default none",
        "  Who.",
        "    use: token",
        "      A token.",
        "        token: string, required",
        "          The token.",
        "    use: users",
        "      Users.",
        "        limit: integer, default 5",
        "          How many.",
    ]


@pytest.mark.parametrize("into", ["out", "out=", "=out"])
def test_a_replay_says_how_a_shadow_is_named(file, into):
    """Pass: exit code 1, with what was given and what was expected."""
    result = mainstem("replay", file, "--query", "lines", "--into", into)
    assert result.returncode == 1
    assert f"--into {into}: expected SINK=OTHER" in result.stderr


@pytest.mark.in_turn
def test_help_teaches_by_example():
    """Pass: help of the whole and of each command ends with 0 and has a line to copy."""
    assert "mainstem run pipeline.yaml" in mainstem("--help").stdout
    for command in ("run", "plan", "validate", "schema", "plugins"):
        result = mainstem(command, "--help")
        assert result.returncode == 0
        assert "Usage:" in result.stdout
    assert "--format mermaid" in mainstem("plan", "--help").stdout


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["validate", "FILE"], ["plan", "FILE"], ["schema"], ["plugins"], ["plugins", "show", "files"],
     ["lag", "FILE"], ["checkpoint", "show", "FILE"], ["checkpoint", "verify", "FILE"], ["doctor", "FILE"],
     ["new", "pipeline", "orders", "NEW"], ["new", "plugin", "sink", "jots", "NEW"]],
)  # fmt: skip
@pytest.mark.in_turn
def test_commands_that_move_no_data_import_no_spark(file, arguments):
    """Pass: neither pyspark nor pandas nor pyarrow is in sys.modules when the command ends."""
    places = {"FILE": str(file), "NEW": str(file.parent / "new")}
    given = [places.get(a, a) for a in arguments]
    script = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('HEAVY', sorted({'pyspark', 'pandas', 'pyarrow', 'py4j'}"
        " & set(sys.modules))))\n"
        f"sys.argv = ['mainstem', *{given!r}]\n"
        "from mainstem.cli.app import main\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert result.stdout.splitlines()[-1] == "HEAVY []", result.stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("path: in", "path: '/data/{S}/x'"),
        ("path: in", "path: in, max_files: '{S}'"),
        ("format: message", "format: '{S}'"),
        ("format: message", "format: message, '{S}': 1"),
        ("k STRING", "{S}"),
        ("k STRING", "k {S}"),
        ('k STRING"}', "k STRING\", keep: {{a: '{S}'}}}}"),
        ("pipeline: test", "pipeline: '{S}'"),
        ("pipeline: test", "pipeline: test\nspark: {{conf: {{spark.x: '{S}'}}}}"),
        ("from: row", "from: '{S}'"),
        ("use: console", "use: '{S}'"),
        ("on_rejected: drop", "watermark: {{column: '{S}', delay: 1 hour}}"),
    ],
)
@pytest.mark.parametrize("reference", ["${env:MAINSTEM_TEST_SECRET}", "${file:secret.txt}"])
@pytest.mark.in_turn
def test_what_a_reference_stands_for_is_never_printed(file, old, new, reference):
    """Pass: right or wrong where it stands, no command prints the value, on either stream."""
    (file.parent / "secret.txt").write_text(SECRET)
    assert old in RIGHT
    file.write_text(RIGHT.replace(old, new.format(S=reference)))
    for command in (
        ["validate"],
        ["plan"],
        ["plan", "--format", "json"],
        ["plan", "--format", "mermaid"],
    ):
        result = mainstem(command[0], file, *command[1:], MAINSTEM_TEST_SECRET=SECRET)
        assert result.returncode in (0, 2, 3)
        assert SECRET not in result.stdout + result.stderr
        assert "Traceback" not in result.stderr


def test_a_plan_without_its_secrets_is_json_still(file):
    """Pass: a secret that JSON would escape is in no name of the plan, which can be read."""
    secret = 'open"sesame'
    file.write_text(RIGHT.replace('"k STRING"', "'`${env:MAINSTEM_TEST_SECRET}` STRING'"))
    result = mainstem("plan", file, "--format", "json", MAINSTEM_TEST_SECRET=secret)
    assert result.returncode == 0, result.stderr
    assert "sesame" not in result.stdout
    row = next(node for node in json.loads(result.stdout)["nodes"] if node["name"] == "row")
    assert "${env:MAINSTEM_TEST_SECRET}" in [each["name"] for each in row["shape"]["columns"]]


# -- for programs ---------------------------------------------------------------------------


def test_what_is_wrong_is_told_to_programs(file):
    """Pass: each error with its place, as the text has them; nothing else on standard output."""
    right = json.loads(mainstem("validate", file, "--static", "--format", "json").stdout)
    assert (right["right"], right["errors"], right["nodes"]) == (True, [], 3)
    file.write_text(RIGHT.replace("from: lines", "from: linse").replace("from: row", "from: rwo"))
    result = mainstem("validate", file, "--static", "--format", "json")
    told = json.loads(result.stdout)
    assert result.returncode == 2
    assert not told["right"]
    places = [(each["key"], each["line"]) for each in told["errors"]]
    assert places == [("operators.row.from", 5), ("sinks.out.from", 7)]
    assert all(each["hint"] for each in told["errors"])
    missing = mainstem("validate", file.with_name("none.yaml"), "--format", "json")
    assert missing.returncode == 2
    assert json.loads(missing.stdout)["errors"][0]["file"].endswith("none.yaml")


@pytest.mark.parametrize(
    ("words", "change", "code", "key"),
    [
        (["plan", "--format", "json"], ("from: row", "from: rwo"), 2, "sinks.out.from"),
        (["lag", "--format=json"], ("from: row", "from: rwo"), 2, "sinks.out.from"),
        (["checkpoint", "show", "--format", "json"], ("console", "consol"), 3, "sinks.out.use"),
        (["deadletters", "list", "--format", "json"], ("", ""), 1, ""),
    ],
)
def test_what_ends_any_command_is_told_to_programs(file, words, change, code, key):
    """Pass: as JSON on standard output and nothing beside it, with the code that the command ends with."""
    file.write_text(RIGHT.replace(*change))
    result = mainstem(*words, file)
    (told,) = json.loads(result.stdout)["errors"]
    assert (result.returncode, told["exit_code"], told["key"]) == (code, code, key)
    assert told["message"]
    assert "error:" not in result.stderr


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_secrets_are_not_told_to_programs_either(file, command):
    """Pass: a wrong value that a reference stands for is not printed."""
    text = RIGHT.replace("format: json", "format: '${env:SWORDFISH}'")
    file.write_text(text)
    result = mainstem(command, file, "--static", "--format", "json", SWORDFISH=SECRET)
    assert result.returncode != 0
    assert json.loads(result.stdout)["errors"]
    assert SECRET not in result.stdout + result.stderr


def test_words_are_told_to_programs():
    """Pass: every word; of one its options as a JSON Schema, for each kind that it has."""
    words = json.loads(mainstem("plugins", "list", "--format", "json").stdout)
    text = mainstem("plugins", "list").stdout.splitlines()
    assert len(words) == len(text) > 20
    assert {"kind", "word", "distribution", "version", "conflict"} == set(words[0])
    found = json.loads(mainstem("plugins", "show", "files", "--format", "json").stdout)
    assert [each["kind"] for each in found] == ["sink", "source"]
    assert "path" in found[0]["options"]["required"]
    [decode] = json.loads(mainstem("plugins", "show", "decode", "--format", "json").stdout)
    assert "Branching" in decode["abilities"]
    [json_format] = json.loads(mainstem("plugins", "show", "json", "--format", "json").stdout)
    assert {"options_of_decode", "options_of_encode"} <= set(json_format)


def test_a_machine_is_told_to_programs(file):
    """Pass: the checks of `doctor`, with its exit code; a checkpoint that is not whole is told with why."""
    result = mainstem("doctor", file, "--format", "json")
    checks = json.loads(result.stdout)
    assert {"Python", "Java", "document"} <= {each["name"] for each in checks}
    assert result.returncode == 0
    result = mainstem("checkpoint", "verify", file, "--static", "--format", "json")
    told = json.loads(result.stdout)
    assert told["whole"] is (result.returncode == 0)
    assert told["whole"] is not bool(told["problems"])
