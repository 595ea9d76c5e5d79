"""The page of a run, in a real browser: it shows what the run's own JSON lines tell, and how it ends.

With MAINSTEM_PICTURES=FOLDER the test puts pictures of it there; docs/pictures has those of the README.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mainstem_testkit.plugin import serve
from mainstem_testkit.server import Server, ServerMissing, free_port

sync = pytest.importorskip("playwright.sync_api")

SECRET = "xyzzy-4711-plugh"


class Chromium(Server):
    """A browser without a window, which the test drives."""

    name = "chromium"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        if shutil.which("chromium") is None:
            raise ServerMissing("Debian: apt-get install chromium")

    def command(self) -> tuple[list[str], dict[str, str]]:
        quiet = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        own = [f"--user-data-dir={self.folder}/profile", f"--remote-debugging-port={self.port}"]
        return ["chromium", *quiet, *own, "about:blank"], {}

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/json/version").is_success
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="session")
def chromium(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    yield from serve(Chromium, request, tmp_path_factory)


@pytest.fixture
def browser(chromium: Server) -> Iterator[Any]:
    """A browser that fails the test for any error in a page, and for any request elsewhere."""
    with sync.sync_playwright() as playwright:
        yield playwright.chromium.connect_over_cdp(chromium.url)


def opened(browser: Any, url: str, wrong: list[str], **settings: Any) -> Any:
    page = browser.new_context(**settings).new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda told: wrong.append(told.text) if told.type == "error" else None)
    page.on(
        "request", lambda asked: wrong.append(asked.url) if not asked.url.startswith(url) else None
    )
    page.goto(url)
    return page


def shop(pipeline: Any) -> Any:
    """Write a document with a window, refused rows, a secret, and a step that can fail."""
    decode = {
        "use": "decode",
        "from": "lines",
        "with": {"format": "json", "schema": "id BIGINT NOT NULL, at TIMESTAMP, cents BIGINT"},
        "watermark": {"column": "at", "delay": "1 minute", "ahead": "1 hour"},
    }
    cheap = {
        "use": "select",
        "from": "order",
        "with": {"where": "cents / id >= 0 AND '${env:SHOP_SECRET}' <> ''"},
    }
    by_minute = {
        "use": "aggregate",
        "from": "order",
        "with": {
            "by": [],
            "window": {"on": "at", "tumbling": "1 minute"},
            "columns": {"orders": "count(*)", "cents": "sum(cents)"},
        },
    }
    return pipeline.document(
        pipeline="shop",
        trigger={"every": "300 milliseconds"},
        operators={"order": decode, "cheap": cheap, "by_minute": by_minute},
        sinks={
            "orders": pipeline.sink("orders", "cheap"),
            "minutes": pipeline.sink("minutes", "by_minute"),
            "refused": pipeline.sink("refused", "order.rejected"),
        },
    )


def orders(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"id": n, "at": f"2026-11-29T12:{n // 10 % 60:02}:00Z", "cents": n * 3}
        for n in range(first, first + count)
    ]


def told(process: Any) -> list[dict[str, Any]]:
    process._out.flush()
    lines = Path(f"/proc/self/fd/{process._out.fileno()}").read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def totals(lines: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the rows of each node by output, as the JSON lines add up; two queries count the same rows."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for line in lines:
        for name, counts in line.get("nodes", {}).items() if line["event"] == "batch" else ():
            found.setdefault((name, line["query"]), Counter()).update(counts)
    whole: dict[str, dict[str, int]] = {}
    for (name, _), sums in found.items():
        known = whole.setdefault(name, {})
        known |= {key: max(count, known.get(key, 0)) for key, count in sums.items()}
    return whole


def shown(page: Any) -> dict[str, int]:
    """Return the rows that the page shows at each node."""
    nodes = page.locator("button.node")
    return {
        node.get_attribute("data-node"): int(
            node.locator(".rows").inner_text().split()[0].replace(",", "")
        )
        for node in nodes.all()
    }


def picture(page: Any, name: str) -> None:
    if folder := os.environ.get("MAINSTEM_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png")


@pytest.mark.in_turn
def test_the_page_shows_a_run_as_it_is(pipeline, browser):
    """Pass: numbers of the JSON lines, on a desk and on a phone, by keyboard, before, while, and after it runs."""
    port, wrong = free_port(), []
    url = f"http://127.0.0.1:{port}/"
    shop(pipeline)
    pipeline.feed("1.jsonl", [*map(json.dumps, orders(1, 600)), "nonsense", "{}"])
    secret = {"SHOP_SECRET": SECRET}
    with pipeline.start("--page", str(port), **secret) as process:
        process.wait_for(lambda: httpx.get(url).is_success if _listens(port) else False)
        page = opened(browser, url, wrong, viewport={"width": 1280, "height": 900})
        sync.expect(page.locator("#state")).to_have_text("running", timeout=120_000)
        assert "process" in page.locator("#about").inner_text()
        process.wait_for(lambda: totals(told(process)).get("orders", {}).get("rows") == 600)
        pipeline.feed("2.jsonl", orders(601, 150))
        process.wait_for(lambda: totals(told(process)).get("orders", {}).get("rows") == 750)
        page.wait_for_timeout(2500)
        lines = told(process)
        sums = totals(lines)
        node = page.locator
        names = {"lines", "order", "cheap", "by_minute", "orders", "minutes", "refused"}
        assert shown(page) == {name: sums[name]["rows"] for name in names}
        assert sums["order"] == {"rows": 750, "rejected": 2, "early": 0}
        assert "2 rejected" in node('[data-node="order"] .more').inner_text()
        assert "exactly-once" in node('[data-node="minutes"] .more').inner_text()
        batches = {q: sum(line.get("query") == q for line in lines if line["event"] == "batch")
                   for q in {line["query"] for line in lines if line["event"] == "batch"}}  # fmt: skip
        for query, count in batches.items():
            card = page.locator(f'[data-query="{query}"]')
            assert re.search(rf"batches\n{count}\n", card.inner_text())
            assert card.locator("svg").nth(1).locator("rect").count() == count

        # By keyboard: the first node, its details, and back.
        page.keyboard.press("Tab")
        sync.expect(page.locator("button.node").first).to_be_focused()
        page.locator('[data-node="cheap"]').focus()
        page.keyboard.press("Enter")
        sync.expect(page.locator("#details-title")).to_be_focused()
        details = page.locator("#details").inner_text()
        assert "cents / id >= 0" in details
        assert SECRET not in page.content()
        assert "${env:SHOP_SECRET}" in details
        picture(page, "page-details")
        page.keyboard.press("Escape")
        sync.expect(page.locator("#details")).to_be_hidden()
        sync.expect(page.locator('[data-node="cheap"]')).to_be_focused()
        picture(page, "page")

        phone = opened(
            browser, url, wrong, viewport={"width": 390, "height": 800}, color_scheme="dark"
        )
        sync.expect(phone.locator("#state")).to_have_text("running")
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        assert phone.evaluate("getComputedStyle(document.body).backgroundColor") != page.evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        picture(phone, "page-phone")
        phone.context.close()

        page.reload()
        sync.expect(page.locator('[data-node="orders"] .rows')).to_have_text("750 rows")

        # A row for which an expression fails ends the run; who looks sees why.
        pipeline.feed("3.jsonl", [{"id": 0, "at": "2026-11-29T12:59:00Z", "cents": 5}])
        sync.expect(page.locator("#state")).to_have_text("failed", timeout=120_000)
        assert "cheap" in page.locator("#error").inner_text()
        sync.expect(page.locator('[data-node="cheap"]')).to_have_class(re.compile("bad"))
        ended = process.wait()
        assert ended.returncode == 1
        assert SECRET not in ended.stdout + ended.stderr + page.content()
        page.wait_for_timeout(1500)
        sync.expect(page.locator("#state")).to_have_text("no answer")

        # The same page shows the next run, which goes over the row.
    again = ["--page", str(port), "--show-rows", "--set", "operators.cheap.with.where=cents >= 0"]
    with pipeline.start(*again, **secret) as process:
        sync.expect(page.locator("#state")).to_have_text("running", timeout=120_000)
        process.wait_for(lambda: totals(told(process)).get("orders", {}).get("rows") == 1)
        sync.expect(page.locator('[data-node="orders"] .rows')).to_have_text("1 rows")
        sync.expect(page.locator("#error")).to_be_hidden()
        pipeline.feed("4.jsonl", ["<b>no JSON</b>"])
        page.locator('[data-node="order"]').click()
        sync.expect(page.locator("table.refused pre")).to_have_text(
            "<b>no JSON</b>", timeout=60_000
        )
        picture(page, "page-refused")
        page.keyboard.press("Escape")
        process.kill(signal.SIGINT)
        sync.expect(page.locator("#state")).to_have_text("ended", timeout=60_000)
        assert process.wait().returncode == 0
    page.context.close()
    # While it failed and came back, the browser could not reach it.
    assert [each for each in wrong if "ERR_CONNECTION_REFUSED" not in each] == []


def _listens(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/").is_success
    except httpx.HTTPError:
        return False
