"""Prints the warnings that come to `WATCHER_ADDRESS`, until it is interrupted."""

from __future__ import annotations

import os

import zmq


def main() -> None:
    """Print each warning on a line of its own."""
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.bind(os.environ["WATCHER_ADDRESS"])
        while True:
            sensor, value = socket.recv_multipart()
            print(f"{sensor.decode()}: {value.decode()}", flush=True)


if __name__ == "__main__":
    main()
