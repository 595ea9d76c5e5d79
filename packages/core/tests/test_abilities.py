"""What a class must have of an ability that it names, and name of one that it has."""

from __future__ import annotations

from typing import Any

import pytest
from mainstem import Events, Options, Rewindable, Source, Swappable
from mainstem.contracts.ability import ABILITIES, abilities, methods


class NoOptions(Options):
    """None."""


class Plain(Source):
    """Has no ability."""

    options: NoOptions

    def shape(self) -> Events:
        return Events("n BIGINT")

    def load(self, ctx: Any) -> Any:
        return ctx.spark.range(1)


def test_what_is_named_is_there():
    """Pass: a class that names an ability and lacks a method is refused when it is defined, by both names."""
    with pytest.raises(TypeError, match="Half names Rewindable among its bases, and lacks gone"):

        class Half(Plain, Rewindable):
            def starting_at(self, point: Any) -> Any:
                return self


def test_what_is_there_is_named():
    """Pass: a component with all methods of an ability that it does not name is refused."""
    with pytest.raises(TypeError, match="Silent has the methods of Rewindable: name it"):

        class Silent(Plain):
            def starting_at(self, point: Any) -> Any:
                return self

            def gone(self, since: Any) -> str:
                return ""


def test_what_is_named_and_there_is_listed():
    """Pass: an ability of the class, and one of its base, which it need not name again."""

    class Whole(Plain, Rewindable):
        def starting_at(self, point: Any) -> Any:
            return self

        def gone(self, since: Any) -> str:
            return ""

    class Below(Whole):
        pass

    assert abilities(Plain) == []
    assert abilities(Below) == ["Rewindable"]


def test_every_ability_has_methods():
    """Pass: at most three each, all of them abstract."""
    assert all(1 <= len(methods(ability)) <= 3 for ability in ABILITIES.values())
    assert methods(Swappable) == ["beside", "clear", "swap"]
