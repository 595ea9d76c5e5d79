"""From a POST to a durable segment: our server beside a bare starlette app that stores nothing.

    python benchmarks/webhook_source.py [SECONDS] [ROUNDS] [loop]

Both are uvicorn with the same parser (httptools) and the same event loop (asyncio's, or `uvloop` if that
word is given and it is installed), one process each. Each round `wrk` posts JSON of 1,000 bytes over 64
connections for so many seconds, each with an id of its own and signed as GitHub does: to the bare app,
which reads the body and answers 202; to our receiver, which lets everybody in; and to our receiver, which
verifies the signature. Prints requests a second, the 50th and 99th percentile of their times, and the
ratios, medians over the rounds.

The log is in the folder for temporary files: with `TMPDIR` in memory (/dev/shm) what is left is the
cost without the disk.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

BODY = json.dumps({"text": "x" * 988}).encode()
SECRET = "benchmark"
CONNECTIONS = 64
PORTS = {"bare": 18081, "none": 18082, "github": 18083}
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def bare(port: int, loop: str) -> None:
    """Serve what answers 202 and stores nothing."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def hook(request: Request) -> Response:
        await request.body()
        return Response(status_code=202)

    async def healthy(_: Request) -> Response:
        return Response()

    routes = [Route("/hook", hook, methods=["POST"]), Route("/healthz", healthy)]
    app: Any = Starlette(routes=routes)
    uvicorn.run(app, port=port, http="httptools", loop=loop, log_level="warning", access_log=False)


def ours(port: int, verify: str, folder: str, loop: str) -> None:
    """Run a receiver until standard input ends; say then how many messages are stored."""
    import threading

    from mainstem_direct_webhook.source.source import WebhookSource, WebhookSourceOptions
    from mainstem_ingress.log import Log
    from mainstem_ingress.process import Task, work

    if loop == "uvloop":
        import asyncio

        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    how = {"use": verify} if verify == "none" else {"use": verify, "secret": SECRET}
    path = {"verify": how, "id": {"header": "x-github-delivery"}}
    options = WebhookSourceOptions.model_validate(
        {"port": port, "paths": {"/hook": path}, "status": 202, "high_water": "100 GB"}
    )
    made = WebhookSource(options).receiver()
    target = f"{made.__module__}:{made.__qualname__}"
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    work(Task(target, "bench", 0, Path(folder), options), lambda _: None, stop)
    print(Log(Path(folder)).unread("0", 0)[0], flush=True)


def load(port: int, seconds: int, threads: int = 1) -> tuple[float, float, float, int]:
    """Return requests a second, the 50th and 99th percentile in milliseconds, and the requests."""
    signature = hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest()
    script = f"""
        local n = 0
        math.randomseed(os.time())
        local run = math.random(1e9)
        wrk.method = "POST"
        wrk.body = '{BODY.decode()}'
        wrk.headers["content-type"] = "application/json"
        wrk.headers["x-github-event"] = "push"
        wrk.headers["x-hub-signature-256"] = "sha256={signature}"
        function request()
          n = n + 1
          wrk.headers["x-github-delivery"] = run .. "-" .. n
          return wrk.format()
        end
    """
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        options = [
            f"-t{threads}",
            f"-c{CONNECTIONS}",
            f"-d{seconds}s",
            "--latency",
            "-s",
            file.name,
        ]
        argv = ["wrk", *options, f"http://127.0.0.1:{port}/hook"]
        out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert "Non-2xx" not in out, out
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])  # type: ignore[index]
    count = int(re.search(r"(\d+) requests in", out)[1])  # type: ignore[index]
    times = dict(re.findall(r"(\d\d)%\s+([\d.]+[mu]?s)", out))
    p50, p99 = (_milliseconds(times[each]) for each in ("50", "99"))
    return rate, p50, p99, count


def _milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * _UNITS[unit]


def measured(name: str, seconds: int, folder: str, loop: str) -> tuple[float, float, float]:
    """Start a server, put load on it, and end it; what was answered is then in its log."""
    port = PORTS[name]
    words = ["bare", str(port), loop] if name == "bare" else ["ours", str(port), name, folder, loop]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen([sys.executable, __file__, *words], **pipes)
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz")
                break
            time.sleep(0.05)
        load(port, 1)  # warm
        rate, p50, p99, count = load(port, seconds)
        if name != "bare":
            stored = int(server.communicate("")[0])
            assert stored >= count, f"{stored} stored of {count}"
        return rate, p50, p99
    finally:
        server.kill()
        server.wait()


def main(seconds: int, rounds: int, loop: str) -> None:
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing: apt-get install wrk")
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in PORTS}
    with tempfile.TemporaryDirectory() as place:
        for number in range(rounds):
            for name, each in found.items():
                each.append(measured(name, seconds, f"{place}/{name}-{number}", loop))
    names = {"bare": "bare starlette", "none": "ours", "github": "ours, verified"}
    median = {
        n: [statistics.median(column) for column in zip(*f, strict=True)] for n, f in found.items()
    }
    for name, (rate, p50, p99) in median.items():
        print(f"{names[name]:16} {rate:8,.0f} requests/s   p50 {p50:6.1f} ms   p99 {p99:6.1f} ms")
    for name in ("none", "github"):
        pairs = [(mine[0] / other[0], mine[2] / other[2])
                 for mine, other in zip(found[name], found["bare"], strict=True)]  # fmt: skip
        rate, p99 = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{names[name]:16} / bare: requests/s {rate:.2f}   p99 {p99:.2f}")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words and words[0] == "bare":
        bare(int(words[1]), words[2])
    elif words and words[0] == "ours":
        ours(int(words[1]), *words[2:])
    else:
        seconds, rounds, loop = [*words, *["8", "3", "asyncio"][len(words) :]]
        main(int(seconds), int(rounds), loop)
