"""What this package brings."""

from __future__ import annotations

from mainstem import Observer, hookimpl

from mainstem_observer_opentelemetry.observer import OpenTelemetry


@hookimpl
def mainstem_observers() -> dict[str, type[Observer]]:
    return {"opentelemetry": OpenTelemetry}
