"""From a PULL socket to durable segments: our receiver beside a bare loop that reads into memory.

    python benchmarks/zeromq_pull.py [MESSAGES] [ROUNDS]

Each round a PUSH peer, a process of its own, sends messages of 200 bytes over TCP four times: to a bare
loop of `recv()`, which takes it that no message has more than one frame; to one of `recv_multipart()`,
which does not; to our receiver, which checks that; and to our receiver, asked for a sequence number and
two frames. Each is timed from its first message to its last; ours, when it is safe on disk. Prints
messages a second and the ratios, medians over the rounds. Goal: the receiver at >= 0.8 of `recv()`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

BODY = b"x" * 200
#: The most messages that wait in memory, of all sides alike.
MARK = 10_000
GOAL = 0.8
COUNTED = {"frames": ["sequence", "value"], "sequence": {"per": []}}


def push(port: str, messages: int, counted: bool) -> None:
    """Send messages as fast as they go."""
    import zmq

    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.sndhwm = MARK
        socket.connect(f"tcp://127.0.0.1:{port}")
        for number in range(messages):
            if counted:
                socket.send_multipart([number.to_bytes(8, "big"), BODY])
            else:
                socket.send(BODY)


def bare(port: str, messages: int, method: str) -> None:
    """Read as pyzmq's documentation shows, and print when the first and last came."""
    import zmq

    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.rcvhwm = MARK
        socket.bind(f"tcp://127.0.0.1:{port}")
        receive = getattr(socket, method)
        found = [receive()]
        first = time.time()
        while len(found) < messages:
            found.append(receive())
        print(json.dumps([first, time.time(), len(found)]), flush=True)


def receiver(port: str, messages: int, folder: str, more: dict[str, Any]) -> None:
    """Run a receiver until all is stored; print when the first came and the last was stored."""
    from mainstem_direct_zeromq.source.options import ZeroMQSourceOptions
    from mainstem_direct_zeromq.source.receiver import ZeroMQReceiver
    from mainstem_ingress.process import Task, work

    options = ZeroMQSourceOptions.model_validate(
        {"bind": f"tcp://127.0.0.1:{port}", "high_water_mark": MARK, "high_water": "100 GB", **more}
    )
    target = f"{ZeroMQReceiver.__module__}:{ZeroMQReceiver.__qualname__}"
    task = Task(target, "bench", 0, Path(folder), options)
    stop = threading.Event()
    began: list[float] = []
    stored = 0
    taken = ZeroMQReceiver._read
    acknowledged = ZeroMQReceiver.acknowledge

    def read(self: Any, *arguments: Any) -> Any:
        found = taken(self, *arguments)
        if found and not began:
            began.append(time.time())
        return found

    def acknowledge(self: Any, group: Any) -> None:
        nonlocal stored
        acknowledged(self, group)
        stored += len(group)
        if stored >= messages:
            began.append(time.time())
            stop.set()

    ZeroMQReceiver._read = read  # type: ignore[method-assign]
    ZeroMQReceiver.acknowledge = acknowledge  # type: ignore[method-assign]
    work(task, lambda _: None, stop)
    print(json.dumps([*began, stored]), flush=True)


def timed(side: str, messages: int, folder: str) -> float:
    """Run a side and a peer; return the messages a second."""
    from mainstem_testkit.server import free_port

    port = str(free_port())
    words = [side, port, str(messages), folder]
    with subprocess.Popen(
        [sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True
    ) as running:
        peer = [sys.executable, __file__, "push", port, str(messages), side]
        subprocess.run(peer, check=True)
        assert running.stdout is not None
        began, ended, count = json.loads(running.stdout.read())
    assert count == messages, f"{side}: {count} of {messages}"
    return messages / (ended - began)


SIDES = {
    "recv": "bare recv()",
    "recv_multipart": "bare recv_multipart()",
    "receiver": "receiver",
    "counted": "receiver, counted",
}


def main(messages: int, rounds: int) -> None:
    """Run all sides in turn and print what came of it."""
    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as place:
        for number in range(rounds):
            for side, found in rates.items():
                found.append(timed(side, messages, str(Path(place, f"{number}-{side}"))))
    for side, name in SIDES.items():
        print(f"{name:24}{statistics.median(rates[side]):12,.0f} messages/s")
    for name, ours, theirs in (
        ("receiver / recv()", "receiver", "recv"),
        ("receiver / recv_multipart()", "receiver", "recv_multipart"),
        ("counted / recv_multipart()", "counted", "recv_multipart"),
    ):
        ratios = [a / b for a, b in zip(rates[ours], rates[theirs], strict=True)]
        print(f"{name:32}{statistics.median(ratios):.2f}")
    print(f"goal: the receiver >= {GOAL} of bare recv()")


if __name__ == "__main__":
    side, *words = sys.argv[1:] or [""]
    if side == "push":
        push(words[0], int(words[1]), words[2] == "counted")
    elif side in ("recv", "recv_multipart"):
        bare(words[0], int(words[1]), side)
    elif side in ("receiver", "counted"):
        receiver(words[0], int(words[1]), words[2], COUNTED if side == "counted" else {})
    else:
        main(*(int(word) for word in [*sys.argv[1:], "500000", "5"][:2]))
