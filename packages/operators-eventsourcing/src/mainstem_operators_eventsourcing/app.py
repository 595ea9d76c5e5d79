"""The class of the user as tasks have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mainstem import OptionError

if TYPE_CHECKING:
    from mainstem.functions import FunctionOptions

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
        self._made, self.name, self.folder = made, name, folder
        self.options = dict(options)

    def value(self, name: str) -> Any:
        """Return what the class has of a name; None for nothing."""
        return getattr(self._made, name, None)

    def function(self, name: str) -> Callable[..., Any]:
        """Return one of the functions."""
        found: Callable[..., Any] = getattr(self._made, name)
        if not self.options:
            return found
        options = self.options
        return lambda *given: found(*given, **options)

    @property
    def initial(self) -> Any:
        """What a key has before its first event; None for nothing."""
        return self.value("initial")

    def fail(self, function: str, error: Exception) -> NoReturn:
        """Tell what one of the functions raised.

        Raises:
            ValueError: always.
        """
        from mainstem.functions import what_raised

        # Of a chain of errors the run tells the first alone.
        raise ValueError(what_raised(f"{self.name}.{function}", error, self.folder)) from None


def load_app(call: str, names: Sequence[str], options: FunctionOptions) -> App:
    """Return the user's class.

    Args:
        call: as `module:Class`.
        names: what it must have: functions.
        options: where its module is looked for, and more arguments of its functions.

    Raises:
        OptionError: it is not there, lacks a function, or can't be sent to Spark's tasks.
    """
    from mainstem.functions import first_on_path, load_function
    from pyspark import cloudpickle

    with first_on_path(options.folder):
        made: Any = load_function(call, options.folder)
    for name in names:
        if not callable(getattr(made, name, None)):
            raise OptionError(f"{call} has no function {name!r}", option="call")
    try:
        pickled: Any = cloudpickle  # which has no types
        pickled.dumps(made)
    except Exception as error:
        message = f"{call} can't be sent to Spark's tasks: {error}"
        hint = "Make in its functions what can't be pickled, such as a lock or a connection."
        raise OptionError(message, option="call", hint=hint) from error
    return App(made, call, options.folder, options.options)
