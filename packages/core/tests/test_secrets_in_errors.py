"""What is wrong with a secret is told without the secret, also where it stands in the document."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Annotated

import pytest
from mainstem import Hidden, Options, Secret, Unprinted, option
from mainstem.contracts.secrets import secrets_in
from mainstem.document.checking import check
from mainstem.document.reading import from_values
from pydantic import ValidationError, model_validator


class Inner(Options):
    token: Secret = option(min_length=20, description="A token.")


class Outer(Options):
    password: Secret = option(min_length=20, description="A password.")
    spare: Secret | None = option(None, min_length=20, description="Another.")
    inner: Inner | None = option(None, description="More.")
    several: list[Secret] = option(list, description="Several.")
    plain: int = option(1, description="No secret.")


@pytest.mark.parametrize(
    "values",
    [
        {"password": "hunter2"},
        {"password": 7_654_321},
        {"password": "x" * 20, "spare": "hunter2"},
        {"password": "x" * 20, "inner": {"token": "hunter2"}},
        {"password": "x" * 20, "several": ["ok", 7_654_321]},
    ],
)
def test_a_wrong_secret_is_not_shown(values):
    """Pass: there is a problem at the secret's key, and its text has nothing of the value."""
    written = from_values(values)
    assert check(Outer, values, written, (), set()) is None
    told = "\n".join(map(str, written.problems))
    assert written.problems
    assert "hunter2" not in told
    assert "7654321" not in told


def test_a_wrong_plain_value_is_shown():
    """Pass: what is no secret is quoted, so that the reader finds it."""
    values = {"password": "x" * 20, "plain": "many"}
    written = from_values(values)
    assert check(Outer, values, written, (), set()) is None
    assert "'many'" in "\n".join(map(str, written.problems))


class Together(Options):
    user: str | None = option(None, description="The user.")
    password: Secret | None = option(None, description="The user's password.")

    @model_validator(mode="after")
    def _both(self) -> Together:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together")
        return self


def test_options_made_in_python_that_do_not_go_together_show_no_secret():
    """Pass: pydantic's own text, which a program may print, says what is wrong and nothing of the values."""
    with pytest.raises(ValidationError, match="go together") as failure:
        Together.model_validate({"password": "hunter2"})
    assert "hunter2" not in str(failure.value)


def _no_spaces(value):
    texts = (
        [value]
        if isinstance(value, Secret)
        else value.values()
        if isinstance(value, dict)
        else value
    )
    if not texts or any(
        " " in text.get_secret_value() or not text.get_secret_value() for text in texts
    ):
        raise ValueError("expected text without spaces")
    return value


class Checked(Options):
    one: Annotated[Secret, Hidden(_no_spaces)] = option(Secret("one"), description="One.")
    several: Annotated[tuple[Secret, ...], Hidden(_no_spaces)] = option(
        (Secret("one"),), description="One or several."
    )
    named: Annotated[dict[str, Secret], Hidden(_no_spaces)] = option(
        {"a": Secret("one")}, description="By name."
    )


def test_a_checked_secret_is_read_in_each_of_its_forms():
    """Pass: a text, a list or one text for several, a map; and what they hold is told in full."""
    made = Checked.model_validate(
        {"one": "hunter2", "several": ["hunter3", "hunter4"], "named": {"x": "hunter5"}}
    )
    assert sorted(secrets_in(made)) == ["hunter2", "hunter3", "hunter4", "hunter5"]
    assert [
        each.get_secret_value() for each in Checked.model_validate({"several": "a"}).several
    ] == ["a"]
    assert "hunter" not in repr(made)


@pytest.mark.parametrize("name", ["one", "several", "named"])
@pytest.mark.parametrize(
    "value",
    ["hunter 2", 7_654_321, ["a", "hunter 2"], ["a", 7_654_321], {"x": "hunter 2"}, {"x": 1}, []],
)
def test_a_checked_secret_that_is_wrong_is_not_shown(name, value):
    """Pass: refused with words that help, also in pydantic's error; no text of it anywhere."""
    with pytest.raises(
        ValidationError, match="without spaces|expected text|expected names"
    ) as failure:
        Checked.model_validate({name: value})
    assert "hunter 2" not in str(failure.value) + str(failure.value.errors())
    assert "7654321" not in str(failure.value) + str(failure.value.errors())


def test_the_schema_says_that_a_checked_secret_is_one():
    """Pass: editors take it for a password, alone, in a list and in a map."""
    known = Checked.model_json_schema()["properties"]
    assert known["one"]["format"] == "password"
    assert [branch["type"] for branch in known["several"]["anyOf"]] == ["string", "array"]
    assert known["named"]["additionalProperties"]["format"] == "password"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("a://u:pass%40word@host/x", ["pass%40word", "pass@word"]),
        ("a://postgres:postgres@host/postgres", []),
        ("a://host/x", []),
    ],
)
def test_of_a_url_the_password_is_told_too_unless_it_is_an_open_word_of_it(url, told):
    """Pass: as it is written and as it is meant; a word that the URL has elsewhere would hide too much."""
    assert sorted(secrets_in(Secret(url))) == sorted([url, *told])


def test_what_is_only_unprinted_is_not_looked_for_elsewhere():
    """Pass: it is not shown where it stands, and is none of the secrets."""
    held = {"a": Unprinted("true"), "b": [Secret("hunter2")]}
    assert "true" not in repr(held)
    assert list(secrets_in(held)) == ["hunter2"]


PLUGIN = """
import sys
from mainstem import Events, MachineError, OptionError, Options, Secret, Source
from mainstem import SourceCapabilities, hookimpl, option

class RadioOptions(Options):
    url: Secret = option(description="Where it is.")
    fails: str = option(description="How it fails.")

class Radio(Source):
    \"\"\"Can't be reached.\"\"\"
    capabilities = SourceCapabilities(replayable=True)
    options: RadioOptions

    def shape(self):
        error = {"option": OptionError, "machine": MachineError, "other": RuntimeError}
        raise error[self.options.fails](f"login failed for {self.options.url.get_secret_value()} (open-sesame)")

    def load(self, ctx):
        raise NotImplementedError

@hookimpl
def mainstem_sources():
    return {"radio": Radio}
"""


@pytest.mark.parametrize(("fails", "code"), [("option", 2), ("machine", 4), ("other", 3)])
@pytest.mark.parametrize("written", ["radio://u:open-sesame@host", "${env:RADIO_URL}"])
@pytest.mark.in_turn
def test_no_command_prints_a_secret_that_a_plugin_told_it(tmp_path, fails, code, written):
    """Pass: whether it stands in the document or is referred to, and whatever the plugin raises."""
    (tmp_path / "plugged.py").write_text(PLUGIN)
    info = tmp_path / "plugged-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text("[mainstem.sources]\nradio = plugged\n")
    file = tmp_path / "radio.yaml"
    file.write_text(
        f"pipeline: test\nsources:\n  r: {{use: radio, with: {{url: '{written}', fails: {fails}}}}}\n"
        "sinks:\n  out: {use: console, from: r}\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "RADIO_URL": "radio://u:open-sesame@host"}
    done = subprocess.run(
        [sys.executable, "-m", "mainstem", "plan", str(file)],
        capture_output=True, text=True, env=env, timeout=60, check=False,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == code, told
    assert "login failed for" in told
    assert "open-sesame" not in told
