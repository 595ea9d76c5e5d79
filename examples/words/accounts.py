"""What `account.yaml` calls; plain Python, tested as such."""

from __future__ import annotations

from typing import Any

from mainstem_operators_eventsourcing import Rejected

Row = dict[str, Any]


class Account:
    """Commands of an account, and what their events make of it."""

    @staticmethod
    def decide(state: Row | None, command: Row) -> list[Row]:
        if command["kind"] == "withdraw" and command["cents"] > (state["cents"] if state else 0):
            raise Rejected("there is not so much")
        return [{name: command[name] for name in ("kind", "cents", "month")}]

    @staticmethod
    def evolve(state: Row | None, event: Row) -> Row:
        sign = 1 if event["kind"] == "deposit" else -1
        return {"cents": (state["cents"] if state else 0) + sign * event["cents"]}


class Upcasts:
    """Events once had amounts, and no month."""

    steps = {
        ("deposit", 1): lambda said: {"cents": round(said["amount"] * 100), "month": "unknown"},
    }


class Monthly:
    """What was deposited in each month."""

    @staticmethod
    def evolve(state: Row | None, event: Row) -> Row:
        months = dict(state["months"]) if state else {}
        if event["kind"] == "deposit":
            months[event["month"]] = months.get(event["month"], 0) + event["cents"]
        return {"months": months}
