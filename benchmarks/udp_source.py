"""UDP: the receiver against a bare `recvmsg` loop over what waits in the kernel. Goal: ratio >= 0.5.

Each round fills the kernel's buffer with datagrams of 200 bytes, and times how fast each side takes them;
nothing is dropped, which is checked. Both ask the kernel for each datagram's sender and time, and for its
count of drops; the bare loop looks at none of it. Root's right to large buffers is needed.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from statistics import median

from mainstem_direct_udp.options import UDPSourceOptions
from mainstem_direct_udp.receiver import UDPReceiver
from rich.console import Console
from rich.table import Table

COUNT, SIZE, ROUNDS = 20_000, 200, 7
BUFFER = 64 * 2**20
GOAL = 0.5


def main() -> None:
    """Run both sides in turn and print a table."""
    rows = [(_bare(), _ours()) for _ in range(ROUNDS)]
    bare, ours = (median(side) for side in zip(*rows, strict=True))
    table = Table(title=f"UDP, {COUNT:,} datagrams of {SIZE} bytes, medians of {ROUNDS}")
    for name in ("bare recvmsg, a second", "receiver, a second", "ratio"):
        table.add_column(name, justify="right")
    table.add_row(f"{bare:,.0f}", f"{ours:,.0f}", f"{ours / bare:.2f}")
    console = Console()
    console.print(table)
    console.print(f"goal: ratio >= {GOAL}")


def _fill(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(COUNT):
            sender.sendto(b"%0200d" % number, ("127.0.0.1", port))


def _bare() -> float:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.setsockopt(socket.SOL_SOCKET, 33, BUFFER)  # SO_RCVBUFFORCE
        made.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
        made.setsockopt(socket.SOL_SOCKET, 40, 1)  # SO_RXQ_OVFL
        made.bind(("127.0.0.1", 0))
        made.setblocking(False)
        _fill(made.getsockname()[1])
        found = []
        began = time.perf_counter()
        with suppress(BlockingIOError):
            while True:
                found.append(made.recvmsg(65_535, 56))
        seconds = time.perf_counter() - began
    assert len(found) == COUNT, f"{len(found)} came"
    return COUNT / seconds


def _ours() -> float:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    given = {"listen": f"127.0.0.1:{port}", "receive_buffer": BUFFER}
    receiver = UDPReceiver(UDPSourceOptions.model_validate(given), 0, "benchmark")
    receiver.connect(None)
    _fill(port)
    count = 0
    began = time.perf_counter()
    while messages := list(receiver.take(0.0)):
        count += len(messages)
    seconds = time.perf_counter() - began
    receiver.close()
    assert count == COUNT, f"{count} came"
    return COUNT / seconds


if __name__ == "__main__":
    main()
