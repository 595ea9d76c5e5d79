"""Shows a run: a live table on a terminal, JSON lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mainstem.plan.model import Plan
from mainstem.run.facts import Totals

if TYPE_CHECKING:
    from rich.table import Table


_COLUMNS = (
    "query / node", "rows", "rows/s", "rejected", "batch", "s", "watermark", "state", "late", "lag",
)  # fmt: skip
_ALWAYS = {"query / node", "rows", "rows/s", "batch", "s"}


class Reporter(Protocol):
    """Is told what happens in a run."""

    def started(self, plan: Plan) -> None:
        """The queries are about to start."""

    def batch(self, facts: Mapping[str, Any]) -> None:
        """A batch is finished."""

    def helper(self, facts: Mapping[str, Any]) -> None:
        """A helper process told what it does."""

    def loading(self, facts: Mapping[str, Any]) -> None:
        """A query loads what it must know first, or has loaded it: `event` says which."""

    def restarted(self, facts: Mapping[str, Any]) -> None:
        """A query failed for no fault of its own, and was restarted; `why` says for what."""

    def lag(self, facts: Mapping[str, Any]) -> None:
        """The lag of a query's sources, measured while no batch ended; empty where it is not known."""

    def unstopped(self, facts: Mapping[str, Any]) -> None:
        """A query did not stop, and is left as it is; `why` says what Spark told."""

    def tick(self) -> None:
        """Some time has passed."""

    def ended(self, summary: Mapping[str, Any]) -> None:
        """No query runs any more."""


class Silent:
    """Shows nothing."""

    def started(self, plan: Plan) -> None:
        pass

    def batch(self, facts: Mapping[str, Any]) -> None:
        pass

    def helper(self, facts: Mapping[str, Any]) -> None:
        pass

    def loading(self, facts: Mapping[str, Any]) -> None:
        pass

    def restarted(self, facts: Mapping[str, Any]) -> None:
        pass

    def lag(self, facts: Mapping[str, Any]) -> None:
        pass

    def unstopped(self, facts: Mapping[str, Any]) -> None:
        pass

    def tick(self) -> None:
        pass

    def ended(self, summary: Mapping[str, Any]) -> None:
        pass


class JSONLines(Silent):
    """Writes one JSON line for each batch, for news of helpers and queries, and for the summary.

    Args:
        to_errors: whether to standard error: rows go to standard output.
    """

    def __init__(self, *, to_errors: bool = False) -> None:
        self._to_errors = to_errors
        self._states: dict[str, Any] = {}

    def started(self, plan: Plan) -> None:
        self._print({"event": "started", "pipeline": plan.pipeline, "file": plan.file})

    def batch(self, facts: Mapping[str, Any]) -> None:
        self._print(facts)

    def helper(self, facts: Mapping[str, Any]) -> None:
        news = (facts.get("state"), facts.get("why"), facts.get("ready"))
        if self._states.get(facts["helper"]) != news:
            self._states[facts["helper"]] = news
            self._print(facts)

    def loading(self, facts: Mapping[str, Any]) -> None:
        self._print(facts)

    def restarted(self, facts: Mapping[str, Any]) -> None:
        self._print(facts)

    def unstopped(self, facts: Mapping[str, Any]) -> None:
        self._print(facts)

    def ended(self, summary: Mapping[str, Any]) -> None:
        self._print(summary)

    def _print(self, facts: Mapping[str, Any]) -> None:
        stream = sys.stderr if self._to_errors else sys.stdout
        print(json.dumps(facts, default=str), file=stream, flush=True)


class LiveTable(Silent):
    """Keeps a table up to date on the terminal."""

    def started(self, plan: Plan) -> None:
        from rich.console import Console
        from rich.live import Live

        self._plan = plan
        self._totals = Totals(plan)
        self._last: dict[str, Mapping[str, Any]] = {}
        self._helpers: dict[str, dict[str, HelperRow]] = {}
        self._loading: dict[str, str] = {}
        self._restarted: set[str] = set()
        self._unstopped: set[str] = set()
        self._live = Live(self._table(), console=Console(), refresh_per_second=4)
        self._live.start()

    def batch(self, facts: Mapping[str, Any]) -> None:
        self._totals.add(facts)
        self._last[facts["query"]] = facts
        self._restarted.discard(facts["query"])

    def helper(self, facts: Mapping[str, Any]) -> None:
        rows = self._helpers.setdefault(facts["node"], {})
        rows.setdefault(facts["helper"], HelperRow()).put(facts)

    def loading(self, facts: Mapping[str, Any]) -> None:
        reads = f" loading {', '.join(facts['reads'])}" if facts["event"] == "loading" else ""
        self._loading[facts["query"]] = reads

    def restarted(self, facts: Mapping[str, Any]) -> None:
        self._restarted.add(facts["query"])

    def lag(self, facts: Mapping[str, Any]) -> None:
        last = self._last.get(facts["query"], {})
        self._last[facts["query"]] = {**last, "lag": facts["lag"]}

    def unstopped(self, facts: Mapping[str, Any]) -> None:
        self._unstopped.add(facts["query"])

    def tick(self) -> None:
        self._live.update(self._table())

    def ended(self, summary: Mapping[str, Any]) -> None:
        self._live.update(self._table(), refresh=True)
        self._live.stop()
        batches = sum(query["batches"] for query in summary["queries"].values())
        self._live.console.print(f"ended after {summary['seconds']:.1f} s, {batches} batches")

    def _table(self) -> Table:
        from rich.table import Table

        rows = [row for query in self._plan.queries for row in self._rows(query.name)]
        rows = [*self._helper_rows(), *rows]
        # Columns with nothing to tell are left out, so that numbers fit into 80 columns.
        shown = [n for n in _COLUMNS if n in _ALWAYS or any(row.get(n) for row in rows)]
        table = Table(title=self._plan.pipeline, title_justify="left", expand=False)
        for name in shown:
            numeric = name not in ("query / node", "watermark")
            table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(row.get(name, "") for name in shown))
        return table

    def _rows(self, query: str) -> Iterator[dict[str, str]]:
        totals = self._totals.queries[query]
        last = self._last.get(query, {})
        lag = last.get("lag", {})
        seconds = last.get("seconds") or 0
        doing = self._loading.get(query, "") + (" restarted" if query in self._restarted else "")
        doing += " does not stop" if query in self._unstopped else ""
        yield {
            "query / node": f"[bold]{query}[/bold]{doing}",
            "rows": f"{totals['rows_in']:,}",
            "rows/s": f"{last.get('rows_per_second', 0):,.0f}",
            "batch": str(last.get("batch", "")),
            "s": f"{seconds:.2f}",
            "watermark": str(last.get("watermark") or "")[:19].replace("T", " "),
            "state": f"{last['state_rows']:,}" if last.get("state_rows") else "",
            "late": f"{totals['late_rows']:,}" if totals["late_rows"] else "",
        }
        for name, counts in self._totals.nodes[query].items():
            now = last.get("nodes", {}).get(name, {})
            rejected = counts.get("rejected", 0)
            yield {
                "query / node": f"  {name}{' idle' if name in last.get('idle', ()) else ''}",
                "rows": f"{counts.get('rows', 0):,}",
                "rows/s": f"{now.get('rows', 0) / seconds if seconds else 0:,.0f}",
                "rejected": f"{rejected:,}" if rejected else "",
                "lag": lag_text(lag[name]) if name in lag else "",
            }

    def _helper_rows(self) -> Iterator[dict[str, str]]:
        from rich.markup import escape

        for helpers in self._helpers.values():
            for name, row in helpers.items():
                shown = row.shown(name)
                yield {**shown, "query / node": escape(shown["query / node"])}


class HelperRow:
    """What the table shows of a helper process: how many rows it handles a second, and its state."""

    def __init__(self) -> None:
        self._facts: Mapping[str, Any] = {}
        self._rate = 0.0
        self._rows, self._at = 0, time.monotonic()

    def put(self, facts: Mapping[str, Any]) -> None:
        """Take what it told."""
        self._facts = {**self._facts, **facts}
        now, rows = time.monotonic(), int(facts.get("rows", self._rows))
        if now - self._at >= 0.5:
            self._rate = max(0, rows - self._rows) / (now - self._at)
            self._rows, self._at = rows, now

    def shown(self, name: str) -> dict[str, str]:
        """Return the cells of its row."""
        state = self._facts.get("state", "")
        why = self._facts.get("why", "")
        doing = self._facts.get("doing", "")
        told = doing if state == "running" else ": ".join(filter(None, (state, why)))
        told = f" {told}"[:60] if told else ""
        return {
            "query / node": f"{name}{told}",
            "rows": f"{self._facts.get('rows', 0):,}",
            "rows/s": f"{self._rate:,.0f}",
        }


def lag_text(lag: Mapping[str, Any]) -> str:
    """Return rows and seconds behind as text."""
    rows = "" if lag["rows"] is None else f"{lag['rows']:,}"
    seconds = "" if lag["seconds"] is None else f"{lag['seconds']:,.0f} s"
    return " / ".join(filter(None, [rows, seconds])) or "?"
