"""A backlog in a queue drains, and memory stays flat.

    python benchmarks/amqp_backlog.py [MESSAGES]

Fills a classic queue with messages of 200 bytes, then runs a document that counts them by their last
digit, until all have come out of it. Once a second it looks at the resident memory of the receiver's
process, Spark's Java process and the driver. Prints the rate, and each process's memory in the second
and the last quarter of the time (medians): flat is when the last is not above the second.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pika
from ruamel.yaml import YAML


def fill(url: str, messages: int) -> None:
    """Publish the backlog."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare("backlog", durable=True)
    for number in range(messages):
        channel.basic_publish("", "backlog", b"%0200d" % number)
    connection.close()


def resident(session: int) -> dict[str, int]:
    """Return the memory of a session's own processes in MiB, by what each is."""
    found: dict[str, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) != session:
                continue
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            status = (folder / "status").read_text()
            # Mapped segments count as the page cache's, not as the process's.
            own = int(status.partition("RssAnon:")[2].split()[0]) // 1024
        except (OSError, IndexError):
            continue
        words = {"mainstem_ingress.process": "receiver", "\0mainstem\0": "driver", "java": "Java"}
        what = next((name for word, name in words.items() if word in command), "workers")
        found[what] = found.get(what, 0) + own
    return found


def follow(process: subprocess.Popen[str], messages: int, done: threading.Event) -> None:
    """Read what the run prints until all rows have come through, or it ends."""
    rows = 0
    assert process.stdout is not None
    for line in process.stdout:
        rows += json.loads(line).get("rows_in", 0)
        if rows >= messages:
            done.set()
    done.set()


def waiting(url: str) -> int:
    """Return how many messages the queue still has."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    found = connection.channel().queue_declare("backlog", passive=True).method.message_count
    connection.close()
    return int(found)


def main(messages: int) -> None:
    from mainstem_broker_amqp.testing import RabbitMQ

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place = Path(name)
        with RabbitMQ(place / "rabbitmq") as server:
            began = time.monotonic()
            fill(server.url, messages)
            print(f"filled in {time.monotonic() - began:.0f} s")
            source = {"url": "${env:AMQP_URL}", "queue": "backlog"}
            document = {
                "pipeline": "backlog",
                "trigger": {"every": "1 second"},
                "spark": {"conf": {"spark.ui.enabled": False, "spark.driver.memory": "1g"}},
                "sources": {"rows": {"use": "amqp", "with": source, "on_rejected": "drop"}},
                "operators": {
                    "digit": {
                        "use": "select",
                        "from": "rows",
                        "with": {"columns": {"digit": "right(STRING(value), 1)"}},
                    },
                    "counted": {
                        "use": "aggregate",
                        "from": "digit",
                        "with": {
                            "by": ["digit"],
                            "columns": {"rows": "count(*)"},
                            "emit": "changes",
                        },
                    },
                },
                "sinks": {
                    "out": {
                        "use": "files",
                        "from": "counted",
                        "with": {"path": "./out", "format": "jsonlines"},
                    }
                },
            }
            file = place / "backlog.yaml"
            YAML(typ="safe", pure=True).dump(document, file)
            began = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-m", "mainstem", "run", str(file)],
                env={**os.environ, "AMQP_URL": server.url},
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            seen: list[dict[str, int]] = []
            done = threading.Event()
            threading.Thread(target=follow, args=(process, messages, done), daemon=True).start()
            while not done.wait(1):
                seen.append(resident(process.pid))
            seconds = time.monotonic() - began
            process.terminate()
            process.wait()
            left = waiting(server.url)
    print(f"{messages:,} messages in {seconds:.0f} s with all starts; {left} left in the queue")
    quarter = len(seen) // 4
    for what in ("receiver", "driver", "Java", "workers"):
        second = [each[what] for each in seen[quarter : 2 * quarter] if what in each]
        last = [each[what] for each in seen[-quarter:] if what in each]
        if second and last:
            shown = [f"{statistics.median(part):.0f} MiB" for part in (second, last)]
            print(f"{what:9} second quarter {shown[0]:>9}, last quarter {shown[1]:>9}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
