"""Whether a topic is still the one that was read: Spark's source sees names and offsets alone."""

from __future__ import annotations

import hashlib
import json

from mainstem import PipelineError, SourceContext, write_whole

from mainstem_broker_kafka.source.offsets import Brokers


def check_are_the_same(brokers: Brokers, ctx: SourceContext) -> None:
    """Hold the ids of topics against those that this read began with, and note new ones.

    Offsets of a topic mean nothing in another one of its name: a part of that would be skipped.

    Raises:
        PipelineError: a topic of which something was read has been made anew.
    """
    folder = ctx.folder() / "topics"
    folder.mkdir(exist_ok=True)
    file = folder / f"{hashlib.sha256(ctx.reading.encode()).hexdigest()[:16]}.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    now = brokers.ids(partition.topic for partition in brokers.partitions_left())
    planned = ctx.progress.planned()
    read = (planned[1] if planned is not None else None) or {}
    anew = [t for t in sorted(now) if t in read and before.get(t, now[t]) != now[t]]
    if anew:
        raise PipelineError(
            f"the topic {', '.join(anew)} was deleted and made anew since it was last read: offsets of "
            "the old one mean nothing in it. Begin anew with `--fresh`; or `on_data_loss: continue` goes "
            "on at the old offsets, and tells what is skipped in the output `lost`."
        )
    if now != before:
        write_whole(file, json.dumps(before | now, indent=2, sort_keys=True))
