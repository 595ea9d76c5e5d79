"""What is wrong with a secret is told without the secret, also where it stands in the document."""

from __future__ import annotations

import pytest
from mainstem import Options, Secret, option
from mainstem.document.checking import check
from mainstem.document.reading import from_values


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
