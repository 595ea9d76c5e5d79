"""Pipelines from Python: the power of the command line in a program or a notebook."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.errors import MainstemError

if TYPE_CHECKING:
    from mainstem.observation.reporter import Reporter
    from mainstem.plan.model import Plan
    from mainstem.run.lag import SourceLag

_REMEMBERED = 1000


class Pipeline:
    """A document, checked.

    In a notebook it shows its graph and what it guarantees.

    Args:
        document: the path of a YAML file, YAML text (anything with a line break), or a document as
            plain values. Relative paths in text and values are relative to the working folder.
        changes: `key.path=value`, as `--set` takes them.

    Raises:
        DocumentError: with every problem found.
    """

    def __init__(
        self, document: str | Path | Mapping[str, Any], changes: Iterable[str] = ()
    ) -> None:
        from mainstem.plan.build import make_plan

        #: What will run: nodes, queries, guarantees.
        self.plan: Plan = make_plan(document, changes=changes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What will hurt later, in sentences."""
        return self.plan.warnings

    def run(
        self,
        *,
        reporter: Reporter | None = None,
        show_rows: bool = False,
        fresh: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Run until the pipeline ends and return the summary; see `mainstem run`.

        Raises:
            MainstemError: what went wrong.
        """
        from mainstem.run.runner import run

        return run(self.plan, reporter=reporter, show_rows=show_rows, fresh=fresh)

    def start(self, *, show_rows: bool = False, fresh: Sequence[str] = ()) -> Running:
        """Run in the background."""
        return Running(self.plan, show_rows=show_rows, fresh=fresh)

    def preview(self, output: str, rows: int = 20) -> list[dict[str, Any]]:
        """Return some rows of a node (`row`) or an output (`row.rejected`), as JSON values.

        No checkpoint is written and nobody's offsets move.

        Raises:
            PipelineError: there is no such output, or it can't be had.
            MachineError: Spark can't start here.
        """
        from mainstem.testing.preview import preview

        return preview(self.plan, output, rows)

    def lag(self) -> list[SourceLag]:
        """Return how far each query is behind its sources, by partition.

        Raises:
            MachineError: a source can't be reached.
        """
        from mainstem.run.lag import lags

        return list(lags(self.plan))

    def __str__(self) -> str:
        from mainstem.plan.rendering import as_text

        return self.plan.scrubber.clean(as_text(self.plan))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from mainstem.plan.drawing import as_html

        shown = self.plan.scrubber.clean(as_html(self.plan))
        return {"text/plain": str(self), "text/html": shown}


class Running:
    """A pipeline that runs in the background; in a notebook it shows its table as of now."""

    def __init__(self, plan: Plan, *, show_rows: bool, fresh: Sequence[str]) -> None:
        from mainstem.observation.picture import Picture

        self._picture = Picture(plan)
        self._progress: deque[Mapping[str, Any]] = deque(maxlen=_REMEMBERED)
        self._stop = threading.Event()
        self._summary: dict[str, Any] | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, args=(plan, show_rows, fresh), name=plan.pipeline, daemon=True
        )
        self._thread.start()

    @property
    def progress(self) -> list[Mapping[str, Any]]:
        """The facts of finished batches, oldest first; of many the latest thousand."""
        return list(self._progress)

    @property
    def active(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive()

    def watch(self, every: float = 1.0) -> dict[str, Any]:
        """Show the table of the run until it ends, in a notebook's cell or on the terminal; see `wait`.

        An interrupt (the notebook's stop button) ends the watching, and stops the run; see `stop`.

        Args:
            every: how often to look, in seconds.
        """
        from mainstem.observation.table import shown_until

        try:
            shown_until(self, self._thread.join, every)
        except KeyboardInterrupt:
            return self.stop()
        return self.wait()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from mainstem.observation.table import as_html, as_text

        facts = self._picture.facts()
        return {"text/plain": as_text(facts), "text/html": as_html(facts)}

    def stop(self) -> dict[str, Any]:
        """Finish the batches in hand and return the summary; see `wait`."""
        self._stop.set()
        return self.wait()

    def wait(self, seconds: float | None = None) -> dict[str, Any]:
        """Wait for the end and return the summary.

        Raises:
            MainstemError: what went wrong.
            TimeoutError: it still runs after so many seconds.
        """
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise TimeoutError(f"still running after {seconds} s")
        if self._error is not None:
            raise self._error
        assert self._summary is not None  # noqa: S101
        return self._summary

    def _run(self, plan: Plan, show_rows: bool, fresh: Sequence[str]) -> None:
        from mainstem.observation.reporter import Several, Silent
        from mainstem.run.runner import run

        progress = self._progress

        class Collect(Silent):
            def batch(self, facts: Mapping[str, Any]) -> None:
                progress.append(facts)

        try:
            self._summary = run(
                plan,
                reporter=Several(self._picture, Collect()),
                stop=self._stop,
                show_rows=show_rows,
                fresh=fresh,
            )
            self._picture.ended(self._summary)
        except BaseException as error:
            self._picture.failed(error)
            self._error = error
            if not isinstance(error, MainstemError):
                raise
