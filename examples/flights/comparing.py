"""What the pipeline has made of the year, and the same by pandas."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections import Counter
from contextlib import closing

import pandas as pd
from rich.console import Console
from rich.table import Table
from year import BROKEN, FLIGHT, OUTPUT, RENAMED, STRAGGLERS, WEATHER, data, weather

TOTALS = ["flights", "cancelled", "late", "delay_minutes"]
NUMBER = ["carrier", "flight", "origin"]  # what tells a flight that leaves day after day
LEAVES = [*NUMBER, "scheduled"]
ALARM = [*NUMBER, "match_start", "match_end", "times", "longest"]
LATE = [*NUMBER, "match_end", "times", "longest", "airline"]
FAR = pd.Timestamp("2100-01-01", tz="UTC")

console = Console()


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


def alarms(messages: list[bytes]) -> pd.DataFrame:
    """Return the flights that were late again and again, as the pipeline has told them."""
    return _alarms(pd.DataFrame([json.loads(line) for line in messages], columns=ALARM))


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


def late_flights() -> pd.DataFrame:
    """Return the view that the pipeline has kept, with the last time of each flight."""
    with closing(sqlite3.connect(OUTPUT / "flights.db")) as database:
        return _late(pd.read_sql("SELECT * FROM late_flights", database))


def late_flights_by_pandas(alarms: pd.DataFrame) -> pd.DataFrame:
    """Return the view that should have been kept, with the airlines' last names."""
    last = alarms.sort_values("match_end").drop_duplicates(NUMBER, keep="last")
    names = data("airlines.csv").set_index("carrier")["name"].to_dict() | dict(RENAMED.values())
    return _late(last.assign(airline=last["carrier"].map(names)))


def _late(frame: pd.DataFrame) -> pd.DataFrame:
    at = pd.to_datetime(frame["match_end"], utc=True).astype("datetime64[us, UTC]")
    frame = frame.assign(match_end=at)[LATE].astype({"flight": int, "times": int, "longest": float})
    return frame.sort_values(NUMBER, ignore_index=True)


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
        query = "SELECT batch, epoch FROM mainstem_ledger WHERE sink = 'hourly_totals'"
        ((batch, epoch),) = database.execute(query).fetchall()
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


def compare(frame: pd.DataFrame, broken: int, messages: list[bytes], kills: int) -> int:
    """Print what came of it, and compare it with pandas; return the exit code.

    Args:
        frame: the flights.
        broken: how many lines were broken.
        messages: those that the broker has.
        kills: how often the run was killed.
    """
    told = stragglers()
    held = frame[:STRAGGLERS]
    found, reasons = by_pipeline(), rejected()
    show(found, reasons)
    raised, joined, kept_up = alarms(messages), departures(), late_flights()
    console.print(
        f"Totals by carrier and hour: table hourly in {OUTPUT}/flights.db, {len(found):,} rows; "
        f"{len(told)} flights that came when those were out: {OUTPUT}/stragglers"
    )
    console.print(f"Departures with their weather: {OUTPUT}/departures (Parquet)")
    console.print(
        f"{len(raised):,} times a flight was late again and again: messages of the NATS server; "
        f"of each flight the last, with its airline's name: table late_flights, {len(kept_up):,} rows"
    )
    console.print(f"Refused lines, with reasons and bytes: {OUTPUT}/rejected (JSON lines)")
    ways = Counter(list(BROKEN)[number % len(BROKEN)] for number in range(broken))
    totals = by_pandas(without(frame, told, LEAVES)).sort_index()[TOTALS]
    plain = alarms_by_pandas(frame)
    # Each query has a pace of its own: what was held back may be late for one and not for another.
    pairs = {
        "totals": (found, totals.astype(found.dtypes)),
        "departures": (
            without(joined, held, LEAVES),
            without(departures_by_pandas(frame).astype(joined.dtypes), held, LEAVES),
        ),
        "alarms": (without(raised, held, NUMBER), without(plain, held, NUMBER)),
        "late flights": (
            without(kept_up, held, NUMBER),
            without(late_flights_by_pandas(plain), held, NUMBER),
        ),
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
        f"{len(kept_up):,} late flights with their airlines' names, {broken} refused lines. "
        f"The run was killed {kills} times on the way, and {kept()}."
    )
    return 0


def without(frame: pd.DataFrame, gone: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows that are not among others, by some columns."""
    known = pd.MultiIndex.from_frame(gone[by])
    kept = frame[~pd.MultiIndex.from_frame(frame[by]).isin(known)]
    return kept.reset_index(drop=True)


def _counts(reasons: Counter[str]) -> pd.DataFrame:
    return pd.DataFrame(sorted(reasons.items()), columns=["reason", "lines"])
