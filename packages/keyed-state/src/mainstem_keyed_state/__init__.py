"""State by key for operators, vectorised: an author writes a pure function over Polars frames.

Names are loaded when they are first used: planning a document needs neither Polars nor Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainstem_keyed_state.columns import polars_schema as polars_schema
    from mainstem_keyed_state.frames import Port as Port
    from mainstem_keyed_state.frames import keyed as keyed
    from mainstem_keyed_state.frames import spark_needs as spark_needs
    from mainstem_keyed_state.layout import layouts_in as layouts_in
    from mainstem_keyed_state.logic import KEY as KEY
    from mainstem_keyed_state.logic import MAIN as MAIN
    from mainstem_keyed_state.logic import Done as Done
    from mainstem_keyed_state.logic import Logic as Logic
    from mainstem_keyed_state.logic import Step as Step
    from mainstem_keyed_state.logic import Table as Table
    from mainstem_keyed_state.operator import KeyedOperator as KeyedOperator
    from mainstem_keyed_state.operator import event_time as event_time
    from mainstem_keyed_state.operator import lacking as lacking
    from mainstem_keyed_state.reading import read_state as read_state

_HOMES = {
    "columns": "polars_schema",
    "frames": "Port keyed spark_needs",
    "layout": "layouts_in",
    "logic": "KEY MAIN Done Logic Step Table",
    "operator": "KeyedOperator event_time lacking",
    "reading": "read_state",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
