"""Logics of the cart, and what a plain loop makes of the same commands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
from mainstem.columns import read_columns
from mainstem_keyed_state.testing import Driver
from mainstem_operators_eventsourcing import Rejected
from mainstem_operators_eventsourcing.app import App
from mainstem_operators_eventsourcing.decide_logic import DecideLogic
from mainstem_operators_eventsourcing.evolve_logic import EvolveLogic
from mainstem_operators_eventsourcing.values import Values
from shop import Cart

START = datetime(2026, 1, 1, tzinfo=UTC)
TIME = pl.Datetime("us", "UTC")
HOUR = 3_600_000_000
MAP = pl.List(pl.Struct({"key": pl.String(), "value": pl.Int64()}))
COMMANDS = "cart STRING, id STRING, at TIMESTAMP, n BIGINT, kind STRING, item STRING, count BIGINT, known BIGINT"
ROWS = pl.Schema(
    {
        "cart": pl.String(),
        "id": pl.String(),
        "at": TIME,
        "n": pl.Int64(),
        "kind": pl.String(),
        "item": pl.String(),
        "count": pl.Int64(),
        "known": pl.Int64(),
    }
)
EVENTS = pl.Schema({"kind": pl.String(), "item": pl.String(), "count": pl.Int64()})
KEPT = pl.Schema({"items": MAP, "paid": pl.Int64()})
STATE = "items MAP<STRING, BIGINT>, paid BIGINT"


def app(made=Cart):
    return App(made, f"shop:{made.__name__}", Path("/nowhere"), {})


def states():
    return Values(read_columns(STATE), KEPT, "shop:Cart: a state")


def decide(made=Cart, remembered=True, **more):
    given = {
        "app": app(made),
        "by": ["cart"],
        "carried": ["cart", "id", "at"],
        "commands": Values(read_columns(COMMANDS), ROWS, "a command"),
        "states": states(),
        "events": Values(
            read_columns("kind STRING, item STRING, count BIGINT"), EVENTS, "shop:Cart: an event"
        ),
        "version": "version",
        "expected": "known",
        "command": "id" if remembered else None,
        "remember": HOUR if remembered else None,
        "time": "at",
        "order": ["n"],
    }
    return DecideLogic(ROWS, **{**given, **more})


def evolve(made=Cart, **more):
    rows = pl.Schema(
        {"cart": pl.String(), "id": pl.String(), "at": TIME, "version": pl.Int64(), **EVENTS}
    )
    ddl = "cart STRING, id STRING, at TIMESTAMP, version BIGINT, kind STRING, item STRING, count BIGINT"
    given = {
        "app": app(made),
        "by": ["cart"],
        "events": Values(read_columns(ddl), rows, "an event"),
        "states": states(),
        "version": "version",
        "time": "at",
        "order": ["version"],
    }
    return EvolveLogic(rows, **{**given, **more})


def driver(logic, **more):
    return Driver(logic, {"input": ["cart"]}, {"input": ("at", 0)}, **more)


def command(n, cart, kind, item="a", count=1, known=None, id=None, minutes=0):  # noqa: A002
    return {
        "cart": cart,
        "id": f"c{n}" if id is None else id,
        "at": START + timedelta(minutes=minutes, milliseconds=n),
        "n": n,
        "kind": kind,
        "item": item,
        "count": count,
        "known": known,
    }


def plain(commands):
    """Return events, states, answers and reasons, by a loop over commands in their order."""
    state, version, seen = {}, {}, {}
    events, answers, reasons = [], [], []
    for each in commands:
        cart = each["cart"]
        now = version.get(cart, 0)
        if (cart, each["id"]) in seen:
            answer = seen[cart, each["id"]]
            answers.append((each["id"], *answer, True))
            if answer[1] is not None:
                reasons.append(answer[1])
            continue
        try:
            if each["known"] not in (None, now):
                raise Rejected(f"version {each['known']} is expected, and {now} is there")
            made = Cart.decide(state.get(cart), each)
            reason = None
        except Rejected as refused:
            made, reason = [], str(refused)
            reasons.append(reason)
        for number, event in enumerate(made, now + 1):
            whole = {name: event.get(name) for name in EVENTS}
            events.append((cart, each["id"], number, *whole.values()))
            state[cart] = Cart.evolve(state.get(cart), whole)
        version[cart] = now + len(made)
        seen[cart, each["id"]] = (reason is None, reason, version[cart], len(made))
        answers.append((each["id"], *seen[cart, each["id"]], False))
    return events, {k: s for k, s in state.items() if s is not None}, answers, reasons


def table(changes):
    """Return what a table is after changes, in any order: the greatest version of each key counts."""
    last = {}
    for row in changes:
        known = last.get(row["cart"])
        if known is None or row["_commit_version"] > known["_commit_version"]:
            last[row["cart"]] = row
    return {
        cart: {"items": {e["key"]: e["value"] for e in row["items"]}, "paid": row["paid"]}
        for cart, row in last.items()
        if row["_change_type"] != "delete"
    }
