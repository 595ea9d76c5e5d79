"""What this package brings."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_observers() -> dict[str, str]:
    return {"openlineage": "mainstem_observer_openlineage.observer:OpenLineage"}
