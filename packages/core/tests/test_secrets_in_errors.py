"""What is wrong with a secret is told without the secret, also where it stands in the document."""

from __future__ import annotations

import pytest
from mainstem import Options, Secret, option
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
