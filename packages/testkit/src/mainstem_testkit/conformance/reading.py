"""How the suite of sources reads: into memory, batch by batch, on a checkpoint of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from mainstem import MainstemError, SinkCapabilities
from mainstem.document.model import Trigger
from mainstem.pipeline import Running
from mainstem.plan.derive import derive
from mainstem.plan.identity import begins
from mainstem.testing.stand_ins import Kept, standing_in

from mainstem_testkit.pipelines import wait_for

#: How long a source may take to give what was put, in seconds.
PATIENCE = 60.0


class _Witness(Kept):
    """Keeps the rows with their identity."""

    capabilities = SinkCapabilities(replaces_batch=True, needs_id=True)


class Reading:
    """A source read into memory on a checkpoint of its own, as often as a test likes.

    Args:
        plan: of a document with the node `subject` and the sink `out`.
        folder: for the checkpoint.
        source: takes the place of the plan's own.
        bounded: whether the source has an end to read to.

    Attributes:
        batches: the rows by the batch's id.
    """

    def __init__(
        self,
        plan: Any,
        folder: Path,
        source: Any = None,
        *,
        bounded: bool = True,
    ) -> None:
        self._whole = plan
        self._folder = folder
        self._source = source
        self._kept = _Witness()
        self._bounded = bounded
        self.batches: dict[int, list[dict[str, Any]]] = self._kept.batches

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, batch by batch."""
        return self._kept.rows()

    def plan(self, trigger: Trigger) -> Any:
        """Return what runs: the source into memory."""
        sink = standing_in(self._whole.nodes["out"], self._kept)
        sink.needs_id = begins(self._whole.nodes["out"].streams[0], self._whole.nodes)
        sources = {"subject": self._source} if self._source is not None else {}
        return derive(
            self._whole, [sink], checkpoint=self._folder, components=sources, trigger=trigger
        )

    def to_end(self) -> None:
        """Read all that is there now."""
        from mainstem.run.runner import run

        run(self.plan(Trigger(available_now=True)), show_rows=True)

    @property
    def home(self) -> Path:
        """The source's durable folder."""
        return Path(self._whole.home("subject"))

    def take(self) -> None:
        """Let the source's helper processes, if it has any, do what they do before a bounded run."""
        from mainstem.observation.reporter import Silent
        from mainstem.run.helpers import Helpers

        with Helpers(self.plan(Trigger(available_now=True)), Silent()) as helpers:
            helpers.wait_until_ready(threading.Event())

    @contextmanager
    def running(self) -> Iterator[Running]:
        """Read on while the block runs; then finish the batch in hand."""
        running = Running(
            self.plan(Trigger(every=timedelta(milliseconds=100))), show_rows=True, fresh=()
        )
        try:
            yield running
        except BaseException:
            with suppress(MainstemError):
                running.stop()
            raise
        running.stop()

    def wait(self, running: Running, rows: int) -> None:
        """Wait until there are so many rows.

        Raises:
            AssertionError: they do not come, or the run ended.
        """

        def there() -> bool:
            if not running.active:
                try:
                    running.wait()
                except MainstemError as error:
                    raise AssertionError(f"the run failed: {error}") from error
                raise AssertionError("the run ended by itself")
            return len(self.rows) >= rows

        try:
            wait_for(there, PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{len(self.rows)} rows of {rows} came: {error}") from None

    def lose_commit(self, batch: int) -> None:
        """Take back the commit of the last batch with rows, as a crash before it would."""
        plan = self.plan(Trigger(available_now=True))
        for query in plan.queries:
            folder = plan.checkpoint / "queries" / query.name
            for log, first in (("commits", batch), ("offsets", batch + 1)):
                for file in list((folder / log).iterdir()):
                    number = file.name.removeprefix(".").removesuffix(".crc")
                    if number.isdigit() and int(number) >= first:
                        file.unlink()

    def lag(self) -> tuple[int | None, float | None]:
        """Return how many rows are not read yet, and how old the oldest is, over all partitions."""
        from mainstem.run.lag import lags

        found = [each.lag for each in lags(self.plan(Trigger(available_now=True)))]
        known = [lag for lag in found if lag is not None]
        rows = [lag.rows for lag in known]
        seconds = [lag.seconds for lag in known]
        return (
            None if None in rows else sum(filter(None, rows)),
            None if None in seconds else max(filter(None, seconds), default=0.0),
        )
