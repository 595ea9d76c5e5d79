"""MoldUDP64: the receiver against a bare loop that cuts packets into messages. Goal: ratio >= 0.7.

Each round fills the kernel's buffer with packets of 20 messages of 40 bytes, and times how fast each side
takes them; nothing is dropped, which is checked. Root's right to large buffers is needed.
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress
from statistics import median

from mainstem_direct_moldudp64.options import MoldUDP64SourceOptions
from mainstem_direct_moldudp64.packets import Packet, written
from mainstem_direct_moldudp64.receiver import MoldUDP64Receiver

PACKETS, EACH, SIZE, ROUNDS = 5_000, 20, 40, 7
BUFFER = 64 * 2**20
GOAL = 0.7
SESSION = b"BENCH     "


def main() -> None:
    """Run both sides in turn and print the ratio."""
    rows = [(_bare(), _ours()) for _ in range(ROUNDS)]
    bare, ours = (median(side) for side in zip(*rows, strict=True))
    print(
        f"moldudp64: {ours:,.0f} messages/s, bare loop {bare:,.0f}: {ours / bare:.2f} (goal {GOAL})"
    )


def _fill(port: int) -> None:
    body = b"x" * SIZE
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(PACKETS):
            packet = Packet(SESSION, 1 + number * EACH, [body] * EACH)
            sender.sendto(written(packet), ("127.0.0.1", port))


def _port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _bare() -> float:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.setsockopt(socket.SOL_SOCKET, 33, BUFFER)
        made.bind(("127.0.0.1", 0))
        made.setblocking(False)
        _fill(made.getsockname()[1])
        messages, head, length = [], struct.Struct(">10sQH"), struct.Struct(">H")
        began = time.perf_counter()
        with suppress(BlockingIOError):
            while True:
                data = made.recv(65_535)
                session, number, count = head.unpack_from(data)
                at = head.size
                for _ in range(count):
                    begin = at + 2
                    at = begin + length.unpack_from(data, at)[0]
                    messages.append((session, number, data[begin:at]))
                    number += 1
        seconds = time.perf_counter() - began
    assert len(messages) == PACKETS * EACH
    return len(messages) / seconds


def _ours() -> float:
    port = _port()
    feed = {"listen": f"127.0.0.1:{port}", "receive_buffer": BUFFER}
    receiver = MoldUDP64Receiver(
        MoldUDP64SourceOptions.model_validate({"feeds": [feed]}), 0, "node"
    )
    receiver.connect(None)
    _fill(port)
    count, began = 0, time.perf_counter()
    while count < PACKETS * EACH:
        taken = len(receiver.take(0.1))  # type: ignore[arg-type]  # as they are stored
        assert taken, "datagrams were dropped"
        count += taken
    seconds = time.perf_counter() - began
    receiver.close()
    return count / seconds


if __name__ == "__main__":
    main()
