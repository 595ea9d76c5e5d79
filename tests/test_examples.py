"""The examples, run as a user would run them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from mainstem_testkit import wait_for

ROOT = Path(__file__).parent.parent
#: What tells a command of the environment that these tests run in.
_OUTSIDE = ("VIRTUAL_ENV", "TOX", "PYTEST")


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Run a command; fail with what it printed if it ends with another code than 0."""
    result = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False, timeout=600,
        env={**{k: v for k, v in os.environ.items() if not k.startswith(_OUTSIDE)}, **env},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


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
def test_the_demo_ends_by_itself_and_equals_pandas(tmp_path):
    """Pass: exit 0 with all flights, in less of the demo's own time."""
    env = {"MAINSTEM_DEMO_SECONDS": "6", "MAINSTEM_DEMO_FILES": "120"}
    shown = run(sys.executable, ROOT / "examples/flights/demo.py", cwd=tmp_path, **env)
    assert "336,776 flights, 56 refused lines" in " ".join(shown.split())
    assert "killed 2 times on the way" in " ".join(shown.split())
    assert "batches in 4 runs" in " ".join(shown.split())


def test_the_tests_of_the_demos_document_pass():
    """Pass: every case in flights.test.yaml."""
    from mainstem.testing.running import run_tests

    results = list(run_tests(ROOT / "examples" / "flights" / "flights.test.yaml"))
    assert len(results) == 3
    assert [(result.name, result.error, result.differences) for result in results] == [
        (result.name, "", []) for result in results
    ]


@pytest.mark.timeout(400)
def test_orders_from_rabbitmq_are_counted_once_each(tmp_path, rabbitmq):
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
    command = [sys.executable, "-m", "mainstem", "run", str(document)]
    with subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.DEVNULL) as first:
        run(*publish, "1200", cwd=folder, **env)  # the first 600 once more, with the same ids
        wait_for(lambda: list(folder.glob("totals/*/*.json")), 90)
        first.kill()
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
