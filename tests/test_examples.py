"""The examples, run as a user would run them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from mainstem_testkit import wait_for
from mainstem_testkit.server import free_port

ROOT = Path(__file__).parent.parent
#: What tells a command of the environment that these tests run in.
_OUTSIDE = ("VIRTUAL_ENV", "TOX", "PYTEST")


@contextmanager
def started(*command, cwd, stdout=subprocess.DEVNULL, stderr=None, **env):
    """Start a command; at the end it and all that it started are killed, also if the test fails."""
    outside = {k: v for k, v in os.environ.items() if not k.startswith(_OUTSIDE)}
    process = subprocess.Popen(
        [*map(str, command)], cwd=cwd, env={**outside, **env}, stdout=stdout, stderr=stderr,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process that was started and all of its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Run a command; fail with what it printed if it ends with another code than 0."""
    pipe = subprocess.PIPE
    with started(*command, cwd=cwd, stdout=pipe, stderr=pipe, **env) as process:
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, out + err
    return str(out)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_plugin_outside_the_workspace_proves_itself_beside_the_wheels_of_core_and_kit(tmp_path):
    """Pass: `tox` in its folder runs the standard tests, and its document's word finds the plugin."""
    wheels, plugin = tmp_path / "wheels", tmp_path / "plugin-hello"
    for package in ("mainstem", "mainstem-testkit"):
        build = ("uv", "build", "--quiet", "--wheel", "--package", package, "--out-dir", wheels)
        run(sys.executable, "-m", *build, cwd=ROOT)
    core, kit = (
        next(wheels.glob(f"{name}-[0-9]*.whl")) for name in ("mainstem", "mainstem_testkit")
    )
    shutil.copytree(ROOT / "examples" / "plugin-hello", plugin)
    report = tmp_path / "report.json"
    tox = (sys.executable, "-m", "tox", "run", "--", f"--conformance-report={report}")
    shown = run(*tox, cwd=plugin, MAINSTEM_CORE=str(core), MAINSTEM_TESTKIT=str(kit))
    assert "source hello (mainstem-hello 1.0): conforms" in shown
    assert "delivery stubborn (mainstem-hello 1.0): conforms" in shown
    components = json.loads(report.read_text())["components"]
    hello, stubborn = sorted(components, key=lambda each: each["kind"], reverse=True)
    assert {test["result"] for test in stubborn["tests"]} == {"passed", "not claimed"}
    results = Counter(test["result"] for test in hello["tests"])
    assert results["passed"] >= 7
    assert set(results) == {"passed", "not claimed", "not given"}
    assert hello["not_given"] == ["put", "limited", "server"]
    mainstem = plugin / ".tox" / "py" / "bin" / "mainstem"
    assert "aggregate" not in run(mainstem, "plugins", cwd=plugin)
    for _ in range(3):  # the first batch of a rate source is empty
        run(mainstem, "run", "greetings.yaml", cwd=plugin)
    rows = [
        json.loads(line)
        for file in (plugin / "greetings").glob("*/*.json")
        for line in file.read_text().splitlines()
    ]
    assert rows
    assert sorted(row["n"] for row in rows) == list(range(len(rows)))
    assert all(row["greeting"] == f"hello {row['n']}" for row in rows)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("months", "departures", "alarms", "late", "refused", "kills"),
    [
        (1, "27,004", 26, 24, 4, 0),
        pytest.param(1, "27,004", 26, 24, 4, 2, marks=pytest.mark.in_turn),
        pytest.param(12, "336,776", 669, 449, 56, 2, marks=pytest.mark.slow),
    ],
)
def test_the_demo_ends_by_itself_and_equals_pandas(
    tmp_path, quick_java, months, departures, alarms, late, refused, kills
):
    """Pass: exit 0 with all flights of the first months, in less of the demo's own time."""
    env = {
        "MAINSTEM_DEMO_MONTHS": str(months),
        "MAINSTEM_DEMO_SECONDS": "6",
        "MAINSTEM_DEMO_FILES": str(10 * months),
        "MAINSTEM_DEMO_KILLS": str(kills),
    }
    shown = run(sys.executable, ROOT / "examples/flights/demo.py", cwd=tmp_path, **env)
    words = " ".join(shown.split())
    assert f"{departures} departures with the weather of their time, {alarms} alarms" in words
    assert f"{late} late flights with their airlines' names" in words
    assert f"{refused} refused lines. The run was killed {kills} times on the way" in words
    assert f"batches in {2 + kills} runs" in words


@pytest.mark.in_turn
def test_the_tests_of_the_demos_document_pass():
    """Pass: every case in flights.test.yaml."""
    from mainstem.testing.running import run_tests

    results = list(run_tests(ROOT / "examples" / "flights" / "flights.test.yaml"))
    assert len(results) == 5
    assert [(result.name, result.error, result.differences) for result in results] == [
        (result.name, "", []) for result in results
    ]


def test_the_doctor_looks_at_a_document_with_relays_and_servers():
    """Pass: relays are nobody's plugin; the server of the demo, which does not run now, is asked for by its place."""
    from mainstem.cli.doctor import examine

    found = {check.name: check for check in examine(ROOT / "examples" / "flights" / "flights.yaml")}
    assert found["document"].state == "ok"
    assert "nats://127.0.0.1:4222" in found["connection"].found


@pytest.mark.timeout(400)
@pytest.mark.in_turn
def test_orders_from_rabbitmq_are_counted_once_each(tmp_path, quick_java, rabbitmq):
    """Pass: killed in the middle and run again, the totals are those of the orders, each once; the
    large ones are in their queue, the broken ones among the refused."""
    import pika

    folder = tmp_path / "orders"
    shutil.copytree(ROOT / "examples" / "orders-amqp", folder)
    env = {"AMQP_URL": rabbitmq.url}
    publish = (sys.executable, folder / "publish.py")
    document = folder / "orders.yaml"
    assert "exactly-once" in run(
        sys.executable, "-m", "mainstem", "plan", document, cwd=folder, **env
    )
    run(*publish, "600", cwd=folder, **env)
    command = [sys.executable, "-m", "mainstem", "run", document]
    with started(*command, cwd=folder, **env):
        run(*publish, "1200", cwd=folder, **env)  # the first 600 once more, with the same ids
        wait_for(lambda: list(folder.glob("totals/*/*.json")), 180)
    run(*command, "--set", 'trigger={"available_now": true, "flush": true}', cwd=folder, **env)
    totals: Counter[tuple[str, str]] = Counter()
    for file in folder.glob("totals/*/*.json"):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            key = (row["city"], row["window_start"][:13])
            assert key not in totals, f"{key} comes twice"
            totals[key] = row["orders"]
    sys.path.insert(0, str(folder))
    import publish as shop

    orders = [shop.order(n) for n in range(1200)]
    good = [json.loads(body) for body in orders if body.startswith(b"{")]
    assert totals == Counter((o["city"], o["placed"][:13]) for o in good)
    refused = sum(len(f.read_text().splitlines()) for f in folder.glob("refused/*/*.json"))
    assert refused == len(orders) - len(good)
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
    channel = connection.channel()
    found = set()
    while (message := channel.basic_get("large-orders", auto_ack=True))[0] is not None:
        found.add(json.loads(message[2])["order_id"])
    connection.close()
    assert found == {o["order_id"] for o in good if o["cents"] >= 50000}


@pytest.mark.slow
def test_deliveries_of_github_are_kept_byte_for_byte_over_a_kill(tmp_path):
    """Pass: all 329 payloads are in the table and in the files as they were sent, though every tenth
    came twice and the run was killed on the way; the forged one is in neither."""
    folder = tmp_path / "github-webhooks"
    shutil.copytree(ROOT / "examples" / "github-webhooks", folder)
    env = {"WEBHOOK_PORT": str(free_port()), "GITHUB_SECRET": "only-we-know"}
    mainstem = (sys.executable, "-m", "mainstem", "run", "github.yaml")

    def rows():
        if not (folder / "github.db").exists():
            return 0
        with closing(sqlite3.connect(folder / "github.db")) as database, suppress(sqlite3.Error):
            return database.execute("SELECT count(*) FROM deliveries").fetchone()[0]
        return 0

    with ExitStack() as running:

        def start(*command, **more):
            return running.enter_context(started(*command, cwd=folder, **more, **env))

        first = start(*mainstem)
        poster = start(sys.executable, "hooks.py", "post", stdout=subprocess.PIPE)
        # Some are answered, and thus on disk, and the others are still to come.
        wait_for(lambda: any(folder.glob("checkpoints/**/*.segment")), 120)
        kill(first)
        assert poster.poll() is None
        second = start(*mainstem)
        told, _ = poster.communicate(timeout=180)
        assert poster.returncode == 0, told
        assert "362 requests with 329 deliveries" in told
        assert "the forged one with 401" in told
        wait_for(lambda: rows() >= 329, 120)
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0
    shown = run(sys.executable, "hooks.py", "check", cwd=folder, **env)
    for where in ("github.db", "archive"):
        assert f"{where}: 329 rows, 0 missing, 0 twice, 0 not as sent" in shown
    assert not list(folder.glob("refused/*/*.json"))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_readings_over_zeromq_are_meant_and_what_did_not_come_is_told(tmp_path):
    """Pass: while the run is up four sensors push a day: means by hour are those of the readings that were sent,
    the gaps are exactly those that never reached a radio, the garbled ones are refused, frost comes to the watcher;
    a sensor with another key gets nothing in."""
    folder = tmp_path / "sensors"
    shutil.copytree(ROOT / "examples" / "zeromq-sensors", folder)
    sys.path.insert(0, str(folder))
    import sensors

    made = run(sys.executable, folder / "sensors.py", "keys", cwd=folder).split()
    keys = {k: v.strip("'") for k, _, v in (word.partition("=") for word in made[1:])}
    env = {
        "SENSORS_ADDRESS": f"tcp://127.0.0.1:{free_port()}",
        "WATCHER_ADDRESS": f"tcp://127.0.0.1:{free_port()}",
        **keys,
    }
    document = folder / "sensors.yaml"
    plan = run(sys.executable, "-m", "mainstem", "plan", document, cwd=folder, **env)
    assert "at-most-once" in plan
    assert "no acknowledgements" in " ".join(plan.split())
    count = 600
    sent = {
        (sensor, number): sensors.reading(sensor, number)
        for sensor in sensors.SENSORS
        for number in range(count)
    }
    good = {place: json.loads(body) for place, body in sent.items() if body and body[:1] == b"{"}

    def rows(name):
        files = folder.glob(f"{name}/*/*.json")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    command = [sys.executable, "-m", "mainstem", "run", document]
    with (
        (folder / "watched").open("w") as watched,
        started(sys.executable, folder / "watch.py", cwd=folder, stdout=watched, **env),
    ):
        stranger = {**env, "SENSORS_KEY": "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"}
        with (
            started(*command, cwd=folder, **env) as first,
            started(sys.executable, folder / "sensors.py", "10", cwd=folder, **stranger),
        ):
            run(sys.executable, folder / "sensors.py", str(count), cwd=folder, **env)
            frost = sum(row["celsius"] < 0 for row in good.values())
            wait_for(lambda: (folder / "watched").read_text().count("\n") >= frost, 120)
            wait_for(lambda: len(rows("means")) >= 4 * (count // 60 - 1), 90)
            first.terminate()
            assert first.wait(60) == 0
        bounded = 'trigger={"available_now": true, "flush": true}'
        run(*command, "--set", bounded, cwd=folder, **env)
    means = {(row["sensor"], row["window_start"][:13]): row for row in rows("means")}
    assert len(means) == len(rows("means"))
    readings = Counter((row["sensor"], row["at"][:13]) for row in good.values())
    assert {place: row["readings"] for place, row in means.items()} == readings
    for (sensor, hour), row in means.items():
        values = [
            r["celsius"] for r in good.values() if (r["sensor"], r["at"][:13]) == (sensor, hour)
        ]
        assert abs(row["celsius"] - sum(values) / len(values)) < 0.006
    missing = {(gap["origin"], int(gap["from"])) for gap in rows("gaps")}
    # Nobody knows what comes after the last that came.
    assert missing == {
        place for place, body in sent.items() if body is None and place[1] < count - 1
    }
    assert all(gap["count"] == 1 for gap in rows("gaps"))
    assert len(rows("refused")) == len([body for body in sent.values() if body == b"~~~"])
    lines = (folder / "watched").read_text().splitlines()
    warned = {json.loads(line.partition(": ")[2])["at"] for line in lines}
    assert len(warned) == frost > 0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_departures_from_kafka_are_in_kafka_once_each_over_a_kill(tmp_path, kafka):
    """Pass: killed when the first are through and run again, each departure is there once, with its
    airline's name, and the broken ones are among the refused."""
    folder = tmp_path / "kafka-enrich"
    shutil.copytree(ROOT / "examples" / "kafka-enrich", folder)
    env = {"KAFKA": kafka.url}
    run(sys.executable, folder / "produce.py", "3000", cwd=folder, **env)
    # The newest PySpark may be older than its connector in the registry: these go together.
    jars = ROOT / ".tools" / "kafka" / "connector"
    given = [f"sources.flights.with.jars={jars}", f"sinks.departures.with.jars={jars}"]
    given.append("sources.flights.with.max_rows=500")
    changes = [part for change in given for part in ("--set", change)]
    mainstem = [sys.executable, "-m", "mainstem"]
    shown = run(*mainstem, "plan", "enrich.yaml", *changes, cwd=folder, **env)
    assert "departures: exactly-once" in " ".join(shown.split())

    def written() -> bool:
        return "departures" in kafka.tool("kafka-get-offsets") and any(
            int(line.rpartition(":")[2])
            for line in kafka.tool("kafka-get-offsets", "--topic", "departures").split()
        )

    command = [*mainstem, "run", "enrich.yaml", *changes]
    with started(*command, cwd=folder, **env):
        wait_for(written, 90)
    run(*command, "--set", 'trigger={"available_now": true}', cwd=folder, **env)
    shown = run(sys.executable, folder / "readback.py", cwd=folder, **env)
    assert "2997 departures, 0 of them more than once" in shown
    assert "late: United Air Lines" in shown
    refused = [
        json.loads(line)
        for file in (folder / "refused").glob("*/*.json")
        for line in file.read_text().splitlines()
    ]
    assert [row["node"] for row in refused] == ["flight"] * 3


@pytest.mark.in_turn
@pytest.mark.timeout(900)
def test_orders_of_five_brokers_are_in_one_table_once_each_over_a_kill(
    tmp_path, pulsar, artemis, elasticmq, pubsub, kafka
):
    """Pass: killed when some are through and run again, each partner's orders are there once, and the
    broken ones are among the refused."""
    folder = tmp_path / "partners"
    shutil.copytree(ROOT / "examples" / "partners", folder)
    env = {
        "PULSAR": pulsar.url, "ARTEMIS": artemis.url, "KAFKA": kafka.url,
        "PUBSUB_EMULATOR_HOST": pubsub.url, "AWS_ENDPOINT_URL_SQS": elasticmq.url,
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
    }  # fmt: skip
    run(sys.executable, "partners.py", "make", cwd=folder, **env)
    run(sys.executable, "partners.py", "send", "200", cwd=folder, **env)
    mainstem = [sys.executable, "-m", "mainstem"]
    assert "orders: exactly-once" in run(*mainstem, "plan", "partners.yaml", cwd=folder, **env)

    def asked(text):
        with closing(sqlite3.connect(folder / "orders.db")) as database:
            return database.execute(text).fetchall()

    def some():
        with suppress(sqlite3.Error):
            return asked("SELECT count(*) FROM orders") > [(0,)]
        return False

    with started(*mainstem, "run", "partners.yaml", cwd=folder, **env):
        wait_for(some, 120)
    command = [*mainstem, "run", "partners.yaml", "--set", 'trigger={"available_now": true}']
    run(*command, cwd=folder, **env)
    found = asked("SELECT partner, count(*), count(DISTINCT number) FROM orders GROUP BY partner")
    partners = ("app", "depot", "mainframe", "market", "shop")
    assert sorted(found) == [(each, 196, 196) for each in partners]
    refused = [
        json.loads(line)
        for file in (folder / "refused").glob("*/*.json")
        for line in file.read_text().splitlines()
    ]
    assert Counter(row["node"] for row in refused) == {f"from_{each}": 4 for each in partners}


@pytest.mark.in_turn
def test_means_of_sensors_with_wrong_clocks_come_right(tmp_path):
    """Pass: each mean is that of the true times, late ones corrected; what was in the drawer is told."""
    folder = tmp_path / "wrong-clocks"
    shutil.copytree(ROOT / "examples" / "wrong-clocks", folder)
    for part in "12":
        run(sys.executable, "readings.py", part, cwd=folder)
        run(Path(sys.executable).with_name("mainstem"), "run", "clocks.yaml", cwd=folder)
    truth = json.loads((folder / "truth.json").read_text())
    with closing(sqlite3.connect(folder / "means.db")) as database:
        asked = "SELECT room, substr(window_start, 12, 5), readings, celsius, pane FROM means"
        means = {
            f"{room} {at}": (n, mean, pane) for room, at, n, mean, pane in database.execute(asked)
        }
    lacking = {"b 08:00", "b 08:10"}
    assert {name for name, (n, _, _) in means.items() if n != 30} == lacking
    for name in means.keys() - lacking:
        assert list(means[name][:2]) == truth[name], name
    assert len(means) == 38
    assert {name for name, (_, _, pane) in means.items() if pane == "late"} == {
        *(f"{room} 09:{minute}" for room in "ab" for minute in ("00", "10")),
        *(f"b 08:{minute}" for minute in (20, 30, 40, 50)),
    }
    files = (folder / "too-late").rglob("*.json")
    late = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert Counter(row["sensor"] for row in late) == {"b2": 20}


@pytest.mark.in_turn
def test_cards_that_are_tried_out_are_found(tmp_path):
    """Pass: the alarms are those of a plain look at each card's payments, and the picture is the pattern's."""
    folder = tmp_path / "fraud"
    shutil.copytree(ROOT / "examples" / "fraud", folder)
    mainstem = Path(sys.executable).with_name("mainstem")
    run(sys.executable, "payments.py", cwd=folder)
    picture = run(mainstem, "match", "picture", "fraud.yaml", "tried_out", cwd=folder)
    assert f"```mermaid\n{picture}```" in (folder / "README.md").read_text()
    run(mainstem, "run", "fraud.yaml", cwd=folder)
    found = {
        (row["card"], row["match_start"][11:16], row["smalls"], row["taken"])
        for file in (folder / "alarms").rglob("*.json")
        for row in map(json.loads, file.read_text().splitlines())
    }
    assert found == {("card-07", "03:00", 3, 2499.0), ("card-31", "14:00", 4, 2499.0)}


@pytest.mark.in_turn
def test_three_systems_stay_in_step_with_a_log_of_changes(tmp_path, postgres, redis, opensearch):
    """Pass: killed while it writes and run again, a cache, a search index and a lake table hold what the database does, and `verify`
    finds nothing; a hash that somebody changed is found and put right."""
    import psycopg
    import redis as client
    from deltalake import DeltaTable

    for name in ("derived", "shop-cdc"):
        shutil.copytree(ROOT / "examples" / name, tmp_path / name)
    folder = tmp_path / "derived"
    with psycopg.connect(postgres.url, autocommit=True) as server:
        server.execute("CREATE DATABASE shop_derived")
    env = {
        "SHOP_URL": postgres.url.rpartition("/")[0] + "/shop_derived",
        "CACHE_URL": redis.url,
        "SEARCH_URL": opensearch.url,
    }
    mainstem = Path(sys.executable).parent / "mainstem"
    try:
        run(sys.executable, tmp_path / "shop-cdc" / "shop.py", "1", cwd=folder, **env)
        killed = {**env, "MAINSTEM_FAILPOINT": "lake.before-commit:1:kill"}
        with started(mainstem, "run", "derived.yaml", cwd=folder, **killed) as first:
            assert first.wait(120) != 0
        run(mainstem, "run", "derived.yaml", cwd=folder, **env)
        run(sys.executable, tmp_path / "shop-cdc" / "shop.py", "2", cwd=folder, **env)
        run(mainstem, "run", "derived.yaml", cwd=folder, **env)
        with psycopg.connect(env["SHOP_URL"]) as shop:
            orders = shop.execute("SELECT id, total FROM orders ORDER BY id").fetchall()
            customers = shop.execute("SELECT id, city FROM customers ORDER BY id").fetchall()
        found = DeltaTable(str(folder / "lake" / "orders")).to_pyarrow_table().to_pylist()
        assert sorted((row["id"], row["total"]) for row in found) == orders
        documents = opensearch.documents("customers")
        assert sorted((int(key), held.get("city")) for key, held in documents.items()) == customers
        told = run(mainstem, "verify", "derived.yaml", cwd=folder, **env)
        assert all(told.count(f"{kind}: 0") == 3 for kind in ("missing", "extra", "different")), (
            told
        )
        with client.Redis("127.0.0.1", redis.port) as cache:
            key = f"customer:{customers[0][0]}"
            cache.hset(key, "city", "Nowhere")
            told = run(
                mainstem, "verify", "derived.yaml", "--sink", "cache", "--repair", cwd=folder, **env
            )
            assert "different: 1" in told
            assert cache.hget(key, "city").decode() == customers[0][1]
    finally:
        with psycopg.connect(postgres.url, autocommit=True) as server:
            with psycopg.connect(env["SHOP_URL"], autocommit=True) as shop:
                shop.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = "
                    "'shop_derived'"
                )
            server.execute("DROP DATABASE shop_derived WITH (FORCE)")


@pytest.mark.in_turn
def test_a_view_stays_in_step_with_a_shops_database(tmp_path, postgres):
    """Pass: after each run the view is the join of both tables, by the database's own SQL; the plan says exactly-once."""
    import psycopg

    folder = tmp_path / "shop-cdc"
    shutil.copytree(ROOT / "examples" / "shop-cdc", folder)
    env = {}
    with psycopg.connect(postgres.url, autocommit=True) as server:
        for name in ("shop", "views"):
            server.execute(f"CREATE DATABASE {name}")
            env[f"{name.removesuffix('s').upper()}_URL"] = (
                postgres.url.rpartition("/")[0] + f"/{name}"
            )
    mainstem = Path(sys.executable).parent / "mainstem"
    try:
        assert "order_view: exactly-once" in run(mainstem, "plan", "shop.yaml", cwd=folder, **env)
        for number in ("1", "2"):
            run(sys.executable, "shop.py", number, cwd=folder, **env)
            run(mainstem, "run", "shop.yaml", cwd=folder, **env)
            with (
                psycopg.connect(env["SHOP_URL"]) as shop,
                psycopg.connect(env["VIEW_URL"]) as views,
            ):
                expected = shop.execute(
                    "SELECT o.id, total, placed, name, city FROM orders o LEFT JOIN customers c ON c.id = "
                    "o.customer ORDER BY o.id"
                ).fetchall()
                columns = "id, total, placed, customer_name, city"
                found = views.execute(f"SELECT {columns} FROM order_view ORDER BY id").fetchall()
            assert found == expected
            assert len(found) > 20
    finally:
        with psycopg.connect(postgres.url, autocommit=True) as server:
            with psycopg.connect(env["SHOP_URL"], autocommit=True) as shop:
                shop.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = 'shop'"
                )
            for name in ("shop", "views"):
                server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _messages(kafka, topic):
    """Return what was committed to a topic."""
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": kafka.url, "group.id": "reader", "enable.auto.commit": False}
    with closing(Consumer({**settings, "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([topic])
        found, silent = [], 0
        while silent < 5:
            messages = consumer.consume(100, 1)
            silent = 0 if messages else silent + 1
            found += [message for message in messages if message.error() is None]
        return found


@pytest.mark.in_turn
def test_commands_become_events_and_carts(tmp_path, postgres, kafka):
    """Pass: killed between events and carts and run again, each command has been decided once, also one that was sent twice;
    topic, compacted topic and table agree."""
    import httpx
    import psycopg

    folder = tmp_path / "cart"
    shutil.copytree(ROOT / "examples" / "cart", folder)
    with psycopg.connect(postgres.url, autocommit=True) as server:
        server.execute("CREATE DATABASE carts")
    place = postgres.url.rpartition("/")[0] + "/carts"
    port, token = free_port(), "a-long-secret-of-our-own"
    env = {
        "KAFKA": kafka.url,
        "VIEW_URL": place,
        "CART_TOKEN": token,
        "WEBHOOK_PORT": str(port),
    }
    sent = 0

    def send(cart, kind, item=None, count=None, known=None, again=False):
        nonlocal sent
        sent += not again
        headers = {"authorization": f"Bearer {token}", "webhook-id": f"c{sent}"}
        body = {"cart": cart, "kind": kind, "item": item, "count": count, "known": known}

        def answered():
            with suppress(httpx.TransportError):
                place = f"http://127.0.0.1:{port}/carts"
                return httpx.post(place, json=body, headers=headers, timeout=60).status_code == 200
            return False

        wait_for(answered, 120)

    def carts():
        with psycopg.connect(place) as views, suppress(psycopg.errors.UndefinedTable):
            return views.execute("SELECT cart, state, items FROM carts ORDER BY cart").fetchall()
        return []

    jars = ROOT / ".tools" / "kafka" / "connector"
    given = [
        part for n in ("events", "states") for part in ("--set", f"sinks.{n}.with.jars={jars}")
    ]
    mainstem = (Path(sys.executable).parent / "mainstem", "run", "cart.yaml", *given)
    try:
        shown = run(mainstem[0], "plan", "cart.yaml", cwd=folder, **env)
        assert all(f"{name}: exactly-once" in shown for name in ("events", "states", "carts")), (
            shown
        )
        killed = {**env, "MAINSTEM_FAILPOINT": "sql.before-commit:1:kill"}
        with started(*mainstem, cwd=folder, **killed) as first:
            send("x", "add", "tea", 2)
            assert first.wait(120) != 0
        with started(*mainstem, cwd=folder, **env):
            send("y", "add", "milk")
            send("x", "take", "tea", 3)
            send("x", "take", "tea", known=1)
            send("x", "take", "tea", known=1, again=True)
            send("y", "pay")
            send("y", "add", "milk")
            send("y", "confirm")
            send("z", "add", "oil")
            wait_for(lambda: [row[0] for row in carts()] == ["x", "z"], 120)
            assert carts() == [("x", "open", '{"tea":1}'), ("z", "open", '{"oil":1}')]
            wait_for(lambda: len(_messages(kafka, "cart-events")) == 6, 60)
            events = [json.loads(m.value()) for m in _messages(kafka, "cart-events")]
            found = sorted((e["cart"], e["version"], e["kind"]) for e in events)
            assert found == [
                ("x", 1, "added"),
                ("x", 2, "taken"),
                ("y", 1, "added"),
                ("y", 2, "payment asked for"),
                ("y", 3, "paid"),
                ("z", 1, "added"),
            ]
            newest = {m.key(): m.value() for m in _messages(kafka, "carts")}
            assert newest[b"y"] is None
            assert json.loads(newest[b"x"])["items"] == {"tea": 1}
        refused = [
            json.loads(line)["reason"]
            for file in (folder / "refused").rglob("*.json")
            for line in file.read_text().splitlines()
        ]
        assert sorted(refused) == ["it is being paid", "there are 2 of tea"]
        state = (mainstem[0], "state", "cart.yaml", "--node", "cart", "--key", "x", *given)
        shown = run(*state, cwd=folder, **env)
        assert "tea" in shown
    finally:
        with psycopg.connect(postgres.url, autocommit=True) as server:
            server.execute("DROP DATABASE carts WITH (FORCE)")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_trades_of_a_feed_become_bars_over_a_kill(tmp_path):
    """Pass: though both feeds lose packets and the receiver is killed, bars are those of all trades but three messages
    that nobody has any more, which are told by their numbers, each once.
    """
    folder = tmp_path / "feed"
    shutil.copytree(ROOT / "examples" / "market-feed", folder)
    sys.path.insert(0, str(folder))
    import exchange

    env = {f"FEED_{name}": f"127.0.0.1:{free_port()}" for name in ("A", "B", "AGAIN")}
    count = 2000

    def rows(name):
        files = folder.glob(f"{name}/*/*.json")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    command = [sys.executable, "-m", "mainstem", "run", folder / "feed.yaml"]
    with started(*command, cwd=folder, **env) as first:
        wait_for(lambda: receivers_of(first.pid), 60)
        time.sleep(3)
        with started(
            sys.executable, folder / "exchange.py", str(count), cwd=folder, **env
        ) as sends:
            time.sleep(0.3)
            for pid in receivers_of(first.pid):
                os.kill(pid, signal.SIGKILL)
            assert sends.wait(120) == 0
        wait_for(lambda: len(rows("gaps")) >= 2, 60)
        first.terminate()
        assert first.wait(60) == 0
    bounded = 'trigger={"available_now": true, "flush": true}'
    run(*command, "--set", bounded, cwd=folder, **env)
    gone = [n for gap in rows("gaps") for n in range(int(gap["from"]), int(gap["to"]) + 1)]
    assert sorted(gone) == sorted(exchange.GONE)
    expected = {}
    for trade in exchange.trades(exchange.messages(count)):
        if trade["number"] not in exchange.GONE:
            place = trade["stock"], int(trade["seconds"] // 60)
            expected.setdefault(place, []).append(trade)
    bars = {}
    for row in rows("bars"):
        hour, minute = row["window_start"][11:16].split(":")
        assert (row["stock"], int(hour) * 60 + int(minute)) not in bars
        bars[row["stock"], int(hour) * 60 + int(minute)] = row
    assert bars.keys() == expected.keys()
    for place, held in expected.items():
        prices, bar = [trade["price"] for trade in held], bars[place]
        found = [float(bar[name]) for name in ("open", "high", "low", "close")]
        assert found == [prices[0], max(prices), min(prices), prices[-1]]
        assert bar["volume"] == sum(trade["shares"] for trade in held)
        assert bar["trades"] == len(held)
    assert not rows("refused")


def receivers_of(pid):
    """Return the processes that take messages for a run."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = file.read_bytes().split(b"\0")
            parent = int((file.parent / "stat").read_text().rpartition(")")[2].split()[1])
            if b"mainstem_ingress.process" in words and parent == pid:
                found.append(int(file.parent.name))
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_metrics_of_statsd_become_percentiles(tmp_path):
    """Pass: totals and counts are those of what was sent, and percentiles of what was measured; bad lines are refused."""
    folder = tmp_path / "metrics"
    shutil.copytree(ROOT / "examples" / "metrics", folder)
    sys.path.insert(0, str(folder))
    import service

    env = {"STATSD": f"127.0.0.1:{free_port()}"}

    def rows(name):
        files = folder.glob(f"{name}/*/*.json")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    command = [sys.executable, "-m", "mainstem", "run", folder / "metrics.yaml"]
    with started(*command, cwd=folder, **env) as first:
        wait_for(lambda: receivers_of(first.pid), 60)
        time.sleep(3)
        run(sys.executable, folder / "service.py", "4000", cwd=folder, **env)
        wait_for(lambda: len(rows("refused")) >= 8, 60)
        first.terminate()
        assert first.wait(60) == 0
    bounded = 'trigger={"available_now": true, "flush": true}'
    run(*command, "--set", bounded, cwd=folder, **env)
    sent = service.lines(4000)
    for route in ("home", "cart"):
        calls = sum(line == b"%b.calls:1|c" % route.encode() for line in sent)
        told = [row["total"] for row in rows("totals") if row["name"] == f"{route}.calls"]
        assert sum(told) == calls
        took = [row for row in rows("latency") if row["name"] == f"{route}.took"]
        values = [
            int(line.split(b":")[1].split(b"|")[0])
            for line in sent
            if line.startswith(b"%b.took:" % route.encode()) and b"slow" not in line
        ]
        assert sum(row["seen"] for row in took) == len(values)
        assert sum(row["calls"] for row in took) == 4 * len(values)
        assert all(min(values) <= row["p50"] <= row["p99"] <= max(values) for row in took)
    assert len(rows("refused")) == sum(b"slow" in line for line in sent)
    assert not rows("lost")
