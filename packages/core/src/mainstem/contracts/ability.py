"""What abilities are: contracts that a class names among its bases, and has the methods of.

A class that names one and lacks a method of it can't be defined, and neither can a component that has
all methods of one and does not name it: nothing is claimed and missing, or there and not seen.
"""

from __future__ import annotations

from abc import ABC
from functools import cache

#: Every ability that `mainstem.contracts.abilities` defines, by its name, in the order of that module.
ABILITIES: dict[str, type] = {}


class Ability(ABC):  # noqa: B024  # what is abstract is each ability's own
    """What all abilities share; a class with this as its own base is an ability."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if Ability in cls.__bases__:
            ABILITIES[cls.__name__] = cls
            return
        for ability in ABILITIES.values():
            lacking = [name for name in methods(ability) if _abstract(getattr(cls, name, None))]
            if lacking and ability in cls.__mro__:
                raise TypeError(
                    f"{cls.__qualname__} names {ability.__name__} among its bases, and lacks "
                    f"{' and '.join(lacking)}"
                )


def abilities(component: type) -> list[str]:
    """Return the names of the abilities that a component's class has."""
    return [name for name, ability in ABILITIES.items() if issubclass(component, ability)]


def unnamed(component: type) -> list[str]:
    """Return the names of the abilities whose methods a class has, and which it does not name."""
    return [
        name
        for name, ability in ABILITIES.items()
        if all(callable(getattr(component, method, None)) for method in methods(ability))
        and ability not in component.__mro__
    ]


@cache
def methods(ability: type) -> list[str]:
    """Return the names of an ability's methods."""
    return [name for name, found in vars(ability).items() if _abstract(found)]


def _abstract(found: object) -> bool:
    return bool(getattr(found, "__isabstractmethod__", False))
