"""The options that every lookup has."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from mainstem import Duration, Options, PositiveDuration, Schema, option


class LookupOptions(Options):
    """Options of operators that ask an external system."""

    table_schema: Schema = option(
        alias="schema",
        description="The columns of an answer, with their types: they are added to the row.",
        example="name STRING, city STRING",
    )
    missing: Literal["null", "reject"] = option(
        "null",
        description="What becomes of a row for which there is nothing: its new columns are null, or it "
        "goes to `rejected`. A row whose key has a null is one, and nobody is asked about it.",
    )
    record: bool = option(
        True,
        description="Write answers down in the checkpoint, with the rows, before they are used. `false` "
        "saves that: then each query of the plan asks by itself, and a batch that is done again asks "
        "again, so sinks can be told different answers, and a row can be refused for one and not for "
        "another.",
    )
    requests: int = option(
        8,
        gt=0,
        le=1000,
        description="How many requests of a task may be without an answer at a time.",
    )
    cache_for: Duration = option(
        timedelta(minutes=1),
        description="How old an answer may be that serves for further rows with the same key, also the "
        "answer that there is nothing; `0 seconds` to ask with each batch of rows.",
        example="10 minutes",
    )
    cache_keys: int = option(
        100_000,
        gt=0,
        advanced=True,
        description="How many answers a task keeps for that at most; the oldest go first.",
    )
    give_up: PositiveDuration = option(
        timedelta(minutes=5),
        advanced=True,
        description="How long to retry with one request before the batch fails.",
    )
