"""Whether a topic is still the one that was read: Spark's source sees names and offsets alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mainstem import PipelineError, SourceContext
from mainstem.durable import made_folder, read_whole, write_whole

from mainstem_broker_kafka.source.offsets import Brokers


@dataclass(frozen=True)
class Notes:
    """What one read keeps beside its checkpoint; can be sent to workers.

    Attributes:
        file: has the ids of topics, and, if `on_loss` is `report`, up to where it is known what
            of each partition was lost.
    """

    file: Path

    @classmethod
    def of(cls, ctx: SourceContext, *, rewound: bool) -> Notes:
        """Return those of a read; a source that was rewound (a preview, a replay) has its own."""
        folder = made_folder(ctx.folder() / "topics")
        name = f"{ctx.read_name} rewound" if rewound else ctx.read_name
        return cls(folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json")

    def ids(self) -> dict[str, str]:
        """Return the ids of the topics that the read began with."""
        found: dict[str, str] = self._read().get("ids", {})
        return found

    def checked(self) -> Mapping[str, Mapping[str, int]] | None:
        """Return up to where losses are told, in the form of Spark's checkpoint; None if nowhere."""
        found: Mapping[str, Mapping[str, int]] | None = self._read().get("checked")
        return found

    def write(
        self, ids: Mapping[str, str], checked: Mapping[str, Mapping[int, int]] | None = None
    ) -> None:
        """Keep both, on disk when this returns."""
        made = {"ids": ids} if checked is None else {"ids": ids, "checked": checked}
        text = json.dumps(made, indent=2, sort_keys=True)
        if not self.file.exists() or read_whole(self.file) != text:
            write_whole(self.file, text)

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(read_whole(self.file)) if self.file.exists() else {}
        return found


def check_are_the_same(brokers: Brokers, ctx: SourceContext, notes: Notes) -> None:
    """Hold the ids of topics against those that this read began with, and note new ones.

    Offsets of a topic mean nothing in another one of its name: a part of that would be skipped.

    Raises:
        PipelineError: a topic of which something was read has been made anew.
    """
    before = notes.ids()
    now = brokers.ids(partition.topic for partition in brokers.partitions_left())
    planned = ctx.progress.planned()
    read = (planned[1] if planned is not None else None) or {}
    anew = [t for t in sorted(now) if t in read and before.get(t, now[t]) != now[t]]
    if anew:
        raise PipelineError(
            f"the topic {', '.join(anew)} was deleted and made anew since it was last read: offsets of "
            "the old one mean nothing in it. Start over with `--fresh`; or `on_loss: report` goes "
            "on at the old offsets, and tells what is skipped in the output `lost`."
        )
    notes.write(before | now)
