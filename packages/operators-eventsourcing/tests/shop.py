"""A cart, as a user writes it."""

from __future__ import annotations

from mainstem_operators_eventsourcing import Rejected


class Cart:
    """Items are added and taken out until it is paid; then it is gone."""

    @staticmethod
    def decide(state, command):
        kind, item, count = command["kind"], command["item"], command["count"]
        if kind == "add":
            return [{"kind": "added", "item": item, "count": count}]
        items = state["items"] if state else {}
        if kind == "take":
            if items.get(item, 0) < count:
                raise Rejected(f"there are {items.get(item, 0)} of {item}")
            return [{"kind": "taken", "item": item, "count": count}]
        if kind == "pay":
            if not items:
                raise Rejected("the cart is empty")
            total = sum(items.values())
            return [{"kind": "paid", "count": total}, {"kind": "closed"}]
        if kind == "look":
            return []
        raise ZeroDivisionError(f"what is {kind}?")

    @staticmethod
    def evolve(state, event):
        state = state or {"items": {}, "paid": 0}
        items = dict(state["items"])
        if event["kind"] == "added":
            items[event["item"]] = items.get(event["item"], 0) + event["count"]
        elif event["kind"] == "taken":
            items[event["item"]] -= event["count"]
            if not items[event["item"]]:
                del items[event["item"]]
        elif event["kind"] == "paid":
            return {"items": items, "paid": event["count"]}
        else:
            return None
        return {"items": items, "paid": state["paid"]}


class Counter:
    """For the standard tests: it counts, and refuses odd numbers."""

    initial = {"count": 0}

    @staticmethod
    def decide(state, command):
        if command["v"] is not None and command["v"] % 2:
            raise Rejected(f"{command['v']} is odd")
        return [{"seen": state["count"]}]

    @staticmethod
    def evolve(state, event):
        return {"count": state["count"] + 1}
