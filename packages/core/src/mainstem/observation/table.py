"""A run as a table on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any

from mainstem.observation.picture import Picture
from mainstem.observation.reporter import Several
from mainstem.plan.model import Plan

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_COLUMNS = (
    "query / node", "rows", "rows/s", "rejected", "batch", "s", "watermark", "state", "late",
    "lag, rows", "lag, s",
)  # fmt: skip
_ALWAYS = {"query / node", "rows", "rows/s", "batch", "s"}
#: A batch in hand is shown once it has taken so many seconds.
_LONG = 2.0


class LiveTable(Several):
    """Keeps a table up to date on the terminal.

    Args:
        plan: what runs.
    """

    def __init__(self, plan: Plan) -> None:
        from rich.console import Console
        from rich.live import Live

        self._picture = Picture(plan)
        super().__init__(self._picture)
        self._console = Console()
        self._live = Live(console=self._console, refresh_per_second=4)
        self._began = time.monotonic()
        self._doing = ""

    def doing(self, facts: Mapping[str, Any]) -> None:
        super().doing(facts)
        if "query" not in facts and facts["what"] != self._doing:
            self._doing = facts["what"]
            passed = time.monotonic() - self._began
            self._console.print(f"{passed:5.1f} s  {self._doing}", style="dim", highlight=False)

    def started(self, plan: Plan) -> None:
        super().started(plan)
        self.tick()
        self._live.start()

    def tick(self) -> None:
        self._live.update(table_of(self._picture.facts()))

    def ended(self, summary: Mapping[str, Any]) -> None:
        self.tick()
        self._live.refresh()
        self._live.stop()
        batches = sum(query["batches"] for query in summary["queries"].values())
        self._console.print(f"ended after {summary['seconds']:.1f} s, {batches} batches")


def table_of(facts: Mapping[str, Any]) -> Table:
    """Return what is known of a run (`Picture.facts`) as a table."""
    from rich.table import Table

    lags = {node["name"]: node["lag"] for node in facts["nodes"] if node["lag"]}
    rows = [*_helpers(facts), *(row for query in facts["queries"] for row in _query(query, lags))]
    # Columns with nothing to tell are left out, so that numbers fit into 80 columns.
    shown = [n for n in _COLUMNS if n in _ALWAYS or any(row.get(n) for row in rows)]
    table = Table(title=facts["pipeline"], title_justify="left", expand=False)
    for name in shown:
        numeric = name not in ("query / node", "watermark")
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(row.get(name, "") for name in shown))
    return table


def as_text(facts: Mapping[str, Any]) -> str:
    """Return what is known of a run as text: its state, and its table."""
    return _recorded(facts).export_text(clear=False)


def as_html(facts: Mapping[str, Any]) -> str:
    """Return the same as HTML."""
    kept = '<pre style="line-height: 1.2; overflow-x: auto">{code}</pre>'
    return _recorded(facts).export_html(inline_styles=True, code_format=kept)


def _recorded(facts: Mapping[str, Any]) -> Console:
    """Return a console that has been shown a run."""
    from rich.console import Console

    made = Console(record=True, file=StringIO(), width=140, force_jupyter=False)
    doing = f": {facts['doing']}" if facts["doing"] else ""
    made.print(f"{facts['state']}{doing}", markup=False, highlight=False)
    made.print(table_of(facts))
    if facts["error"]:
        made.print(facts["error"]["text"], markup=False, highlight=False)
    return made


def shown_until(shown: Any, wait: Callable[[float], object], every: float) -> None:
    """Show a run again and again until it is not active: in a notebook's cell, else on the terminal.

    Args:
        shown: a `Running`.
        wait: waits for its end for so many seconds at most.
        every: how often to look, in seconds.
    """
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        handle = sys.modules["IPython"].display.display(shown, display_id=True)
        while shown.active:
            wait(every)
            if handle is not None:
                handle.update(shown)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def now() -> Text:
        return Text(shown._repr_mimebundle_()["text/plain"])

    with Live(now(), console=Console(), auto_refresh=False) as live:
        while shown.active:
            wait(every)
            live.update(now(), refresh=True)


def _query(query: Mapping[str, Any], lags: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    last, batch = query["last"] or {}, query["in_hand"]
    doing = "" if query["doing"] in ("runs", "waits") else f" {query['doing']}"
    if batch and batch["seconds"] >= _LONG:
        doing += f" batch {batch['batch']} for {batch['seconds']:.0f} s"
    seconds = last.get("seconds") or 0
    yield {
        "query / node": f"[bold]{query['name']}[/bold]{_escaped(doing)}",
        "rows": f"{query['rows_in']:,}",
        "rows/s": f"{last.get('rows_per_second', 0):,.0f}",
        "batch": str(last.get("batch", "")),
        "s": f"{seconds:.2f}",
        "watermark": str(last.get("watermark") or "")[:19].replace("T", " "),
        "state": f"{query['state_rows']:,}" if query["state_rows"] else "",
        "late": f"{query['late_rows']:,}" if query["late_rows"] else "",
    }
    for node in query["nodes"]:
        if not node["totals"]:
            continue
        name, counts, lag = node["name"], node["totals"], lags.get(node["name"], {})
        rejected = counts.get("rejected", 0)
        yield {
            "query / node": f"  {name}{' idle' if name in query['idle'] else ''}",
            "rows": f"{counts.get('rows', 0):,}",
            "rows/s": f"{node['last'].get('rows', 0) / seconds if seconds else 0:,.0f}",
            "rejected": f"{rejected:,}" if rejected else "",
            "lag, rows": _number(lag, "rows"),
            "lag, s": _number(lag, "seconds"),
        }


def _number(lag: Mapping[str, Any], key: str) -> str:
    if key not in lag:
        return ""
    return "?" if lag[key] is None else f"{lag[key]:,.0f}"


def _helpers(facts: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for helper in facts["helpers"]:
        yield {**helper["shown"], "query / node": _escaped(helper["shown"]["query / node"])}


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
