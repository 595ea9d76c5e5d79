"""What a cart is, and what may be done with it. No Spark, no broker: plain functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainstem_operators_eventsourcing import Rejected


class Cart:
    """Items are added and taken out; paying is asked for, and confirmed or declined by another system."""

    @staticmethod
    def decide(state: Mapping[str, Any] | None, command: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the events that a command brings about."""
        kind, item, count = command["kind"], command["item"], command["count"] or 1
        items = state["items"] if state else {}
        paying = state is not None and state["state"] == "paying"
        if kind in ("confirm", "decline"):
            if not paying:
                raise Rejected("nothing is being paid")
            return [{"kind": "paid"}] if kind == "confirm" else [{"kind": "declined"}]
        if paying:
            raise Rejected("it is being paid")
        if kind == "add":
            return [{"kind": "added", "item": item, "count": count}]
        if kind == "take":
            if items.get(item, 0) < count:
                raise Rejected(f"there are {items.get(item, 0)} of {item}")
            return [{"kind": "taken", "item": item, "count": count}]
        if kind == "pay":
            if not items:
                raise Rejected("the cart is empty")
            return [{"kind": "payment asked for", "count": sum(items.values())}]
        raise Rejected(f"{kind} is no command")

    @staticmethod
    def evolve(state: Mapping[str, Any] | None, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the cart after an event; a cart that is paid is gone."""
        items = dict(state["items"]) if state else {}
        kind, item = event["kind"], event["item"]
        if kind == "paid":
            return None
        if kind in ("added", "taken"):
            items[item] = items.get(item, 0) + (
                event["count"] if kind == "added" else -event["count"]
            )
            items = {name: count for name, count in items.items() if count}
        return {"items": items, "state": "paying" if kind == "payment asked for" else "open"}
