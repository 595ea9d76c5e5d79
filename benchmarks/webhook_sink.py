"""Requests per second to an HTTP endpoint: the sink's tasks, and the whole sink, against bare httpx.

Goal: a task at >= 0.9 of the faster of two bare loops of httpx, threads with a client each and coroutines
that share one, with as many requests in flight on all sides. The endpoint is a starlette application
on uvicorn in a process of its own, which reads the body and answers 202.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import httpx
import pyarrow as pa
from job import Job
from mainstem import Batch, messages
from mainstem_direct_webhook.sink.dispatcher import send
from mainstem_direct_webhook.sink.options import WebhookSinkOptions
from mainstem_direct_webhook.sink.sink import WebhookSink
from mainstem_testkit.server import free_port
from rich.console import Console
from rich.table import Table

REQUESTS = 3000
BODY = bytes(200)
CONCURRENCIES = (8, 32)
ROUNDS = 5
GOAL = 0.9
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

_count = itertools.count()


def main() -> None:
    """Run the sides in turn and print a table for each concurrency."""
    logging.disable(logging.WARNING)
    with (
        tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True) as name,
        _endpoint() as url,
    ):
        spark = Job(Path(name, "in"), Path(name, "out"), max_files=1).session()
        frame = spark.range(0, REQUESTS, 1, 1).selectExpr(
            f"CAST(repeat('x', {len(BODY)}) AS BINARY) AS value",
            "unhex(md5(CAST(id AS STRING))) AS _id",
        )
        frame = frame.localCheckpoint(eager=True)
        batch = Batch(0, "bench", "bench", "bench", "out", spark, messages(), 1)
        for concurrency in CONCURRENCIES:
            given = {"url": url, "allow_private": True, "requests": concurrency}
            plain = WebhookSinkOptions.model_validate(given)
            signed = WebhookSinkOptions.model_validate({**given, "sign_with": SECRET})
            sides: dict[str, Callable[[], object]] = {
                "httpx, threads": partial(_threads, url, concurrency),
                "httpx, async": partial(_loop, url, concurrency),
                "task": partial(_task, plain),
                "task, signing": partial(_task, signed),
                "sink in Spark": partial(WebhookSink(plain).write, frame, batch),
            }
            _compare(url, concurrency, sides)
        spark.stop()


def _compare(url: str, concurrency: int, sides: dict[str, Callable[[], object]]) -> None:
    ratios = list(sides)[2:]
    table = Table(
        title=f"{REQUESTS:,} requests of {len(BODY)} bytes, {concurrency} in flight",
        title_justify="left",
    )
    for column in ("round", *(f"{side}, req/s" for side in sides), *ratios):
        table.add_column(column, justify="right")
    found = []
    for number in range(ROUNDS + 1):
        rates = [REQUESTS / _timed(side, url) for side in sides.values()]
        if number:  # the first warms up
            best = max(rates[:2])
            found.append((*rates, *(rate / best for rate in rates[2:])))
            table.add_row(str(number), *_texts(found[-1], len(rates)))
    table.add_section()
    middle = tuple(median(column) for column in zip(*found, strict=True))
    table.add_row("median", *_texts(middle, len(sides)), style="bold")
    console = Console(width=160)
    console.print(table)
    console.print(f"goal: task >= {GOAL} of bare httpx; its median is {middle[len(sides)]:.2f}")


def _timed(side: Callable[[], object], url: str) -> float:
    """Return how long a side took; every request must have been taken."""
    before = int(httpx.get(url).text)
    began = time.perf_counter()
    side()
    seconds = time.perf_counter() - began
    count = int(httpx.get(url).text) - before
    assert count == REQUESTS, f"{count} requests came"
    return seconds


def _threads(url: str, concurrency: int) -> None:
    """Send as one does by hand: threads with a client each, which is faster than to share one."""
    numbers, lock = iter(range(REQUESTS)), threading.Lock()
    context = ssl.create_default_context()

    def run() -> None:
        with httpx.Client(verify=context) as client:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                answer = client.post(url, content=BODY, headers={"webhook-id": f"{number:032x}"})
                assert answer.status_code == 202

    threads = [threading.Thread(target=run) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def _coroutines(url: str, concurrency: int) -> None:
    """Send as one does by hand: coroutines that share an asynchronous client."""
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    numbers = iter(range(REQUESTS))

    async def run() -> None:
        for number in numbers:
            answer = await client.post(url, content=BODY, headers={"webhook-id": f"{number:032x}"})
            assert answer.status_code == 202

    async with httpx.AsyncClient(limits=limits) as client:
        await asyncio.gather(*(run() for _ in range(concurrency)))


def _loop(url: str, concurrency: int) -> None:
    asyncio.run(_coroutines(url, concurrency))


def _task(options: WebhookSinkOptions) -> None:
    """Send the rows of a task, as an executor does."""
    run = next(_count)
    ids = [b"%08d%08d" % (run, number) for number in range(REQUESTS)]
    batch = pa.RecordBatch.from_pydict({"value": [BODY] * REQUESTS, "_id": ids})
    refused = list(send(iter([batch]), options))
    assert not refused


@contextmanager
def _endpoint() -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    process = subprocess.Popen([sys.executable, __file__, str(port)])
    try:
        for _ in range(200):
            try:
                httpx.get(url)
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


def _serve(port: int) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    taken = itertools.count()
    seen = 0

    async def take(request: Request) -> Response:
        nonlocal seen
        await request.body()
        seen = next(taken) + 1
        return Response(status_code=202)

    async def count(_: Request) -> Response:
        return PlainTextResponse(str(seen))

    routes = [Route("/", take, methods=["POST"]), Route("/", count, methods=["GET"])]
    uvicorn.run(
        Starlette(routes=routes),
        host="127.0.0.1",
        port=port,
        log_level="critical",
        access_log=False,
    )


def _texts(values: tuple[float, ...], rates: int) -> tuple[str, ...]:
    return (
        *(f"{rate:,.0f}" for rate in values[:rates]),
        *(f"{ratio:.2f}" for ratio in values[rates:]),
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _serve(int(sys.argv[1]))
    else:
        main()
