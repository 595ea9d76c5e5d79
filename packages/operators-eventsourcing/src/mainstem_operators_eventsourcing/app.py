"""The class of the user as tasks have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

#: A state, or none yet, or no more.
State = Mapping[str, Any] | None


class App:
    """The functions of a user's class.

    Args:
        made: the class.
        name: as the document names it.
        folder: that of the user's code, whose lines errors tell.
        options: more arguments of its functions.
    """

    def __init__(self, made: Any, name: str, folder: Path, options: Mapping[str, Any]) -> None:
        self._made, self.name, self._folder = made, name, folder
        self._options = dict(options)

    def function(self, name: str) -> Callable[..., Any]:
        """Return one of the functions."""
        found: Callable[..., Any] = getattr(self._made, name)
        if not self._options:
            return found
        options = self._options
        return lambda *given: found(*given, **options)

    @property
    def initial(self) -> Any:
        """What a key has before its first event; None for nothing."""
        return getattr(self._made, "initial", None)

    def fail(self, function: str, error: Exception) -> NoReturn:
        """Tell what one of the functions raised.

        Raises:
            ValueError: always.
        """
        from mainstem.functions import what_raised

        # Of a chain of errors the run tells the first alone.
        raise ValueError(what_raised(f"{self.name}.{function}", error, self._folder)) from None
