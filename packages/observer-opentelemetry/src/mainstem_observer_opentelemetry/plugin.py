"""What this package brings."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_observers() -> dict[str, str]:
    return {"opentelemetry": "mainstem_observer_opentelemetry.observer:OpenTelemetry"}
