"""Functions of the user's own, that a document names as `module:function`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, cast

from pydantic import StringConstraints, WithJsonSchema

from mainstem.contracts.options import LocalPath, Options, option
from mainstem.errors import OptionError, nearest

#: Whatever YAML can say.
Value = Annotated[Any, WithJsonSchema({"description": "Any value."})]
#: `module:function`.
FunctionName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")
]


class FunctionOptions(Options):
    """Options of a component that calls a function; it has an option `call` of type `FunctionName`."""

    options: dict[str, Value] = option(dict, description="More keyword arguments of the function.")
    folder: LocalPath = option(
        ".",
        validate_default=True,
        description="Where the module is looked for first, then as Python always does.",
    )


#: Set on a module that came from a document's folder: which one.
_FROM = "__mainstem_folder__"


@contextmanager
def first_on_path(folder: Path) -> Iterator[None]:
    """Let a folder's modules be found while the user's code is imported or called."""
    place = str(folder.absolute())
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)


def load_function(call: str, folder: Path) -> Callable[..., Any]:
    """Return a function; tasks get it, and what it uses of the folder's modules, by value.

    Args:
        call: as `module:function`.
        folder: where the module is looked for first, then as Python always does. Call this, and what
            calls the function in this process, within `first_on_path(folder)`.

    Raises:
        OptionError: it is not there, or its module can't be imported; for the option `call`.
    """
    name, _, wanted = call.partition(":")
    module = _module(name, folder.absolute())
    function = getattr(module, wanted, None)
    if not callable(function):
        names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        what = "has no function" if function is None else "has no function, but a value,"
        message = f"{module.__file__ or name} {what} {wanted!r}"
        raise OptionError(message, option="call", hint=nearest(wanted, names))
    return function  # type: ignore[no-any-return]


def _module(name: str, folder: Path) -> ModuleType:
    """Import a module; one of the folder wins over one of another document's folder."""
    first = name.partition(".")[0]
    known = sys.modules.get(first)
    beside = PathFinder.find_spec(first, [str(folder)])
    if known is not None and beside is not None and not _is_of(first, folder):
        if not hasattr(known, _FROM):
            message = f"module {first!r} of {folder} has the name of one that Python has loaded"
            raise OptionError(message, option="call", hint="Give it another name.")
        _forget(getattr(known, _FROM))
    before = set(sys.modules)
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise OptionError(
                what_raised(f"import {name}", error, folder), option="call"
            ) from error
        message = f"there is no module {error.name!r} in {folder}, nor where Python looks for it"
        raise OptionError(message, option="call") from error
    except Exception as error:
        raise OptionError(what_raised(f"import {name}", error, folder), option="call") from error
    _mark({first, *(set(sys.modules) - before)}, folder)
    return module


def _is_of(name: str, folder: Path) -> bool:
    """Whether a loaded module lies in the folder itself (not in an environment below it)."""
    top = sys.modules.get(name.partition(".")[0])
    file = Path(getattr(top, "__file__", None) or "/")
    return (file.parent.parent if file.stem == "__init__" else file.parent) == folder


def _forget(place: str) -> None:
    """Forget all modules that came from another document's folder."""
    for name, module in list(sys.modules.items()):
        if getattr(module, _FROM, None) == place:
            del sys.modules[name]


def _mark(names: set[str], folder: Path) -> None:
    """Mark the folder's modules, and have their functions sent to workers by value."""
    from pyspark import cloudpickle

    by_value: Callable[[ModuleType], None] = cast("Any", cloudpickle).register_pickle_by_value
    for name in names:
        module = sys.modules.get(name)
        if module is not None and _is_of(name, folder) and not hasattr(module, _FROM):
            setattr(module, _FROM, str(folder))
            by_value(module)


def what_raised(what: str, error: Exception, folder: Path) -> str:
    """Return what was raised, and the line of the user's code that it came from."""
    text = next((line for line in str(error).splitlines() if line.strip()), "")
    told = f"{what} raised {type(error).__name__}: {text}".removesuffix(": ")
    if isinstance(error, SyntaxError):
        return told  # has file and line
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder.absolute())]
    return f"{told} ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else told
