"""What this package brings."""

from __future__ import annotations

from mainstem import Observer, hookimpl

from mainstem_observer_openlineage.observer import OpenLineage


@hookimpl
def mainstem_observers() -> dict[str, type[Observer]]:
    return {"openlineage": OpenLineage}
