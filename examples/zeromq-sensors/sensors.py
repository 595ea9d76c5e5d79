"""Four sensors that push readings: `python sensors.py [HOW_MANY]`; `python sensors.py keys` makes keys.

Each sensor sends one reading for each minute of a winter's day, and counts them. Every fiftieth is lost
on the way to its radio, so its number never comes; now and then one is garbled.
"""

from __future__ import annotations

import json
import math
import os
import sys
from datetime import UTC, datetime, timedelta

import zmq

#: The mean of each sensor, and how far the day moves it.
SENSORS = {"attic": (11.0, 4.0), "cellar": (8.0, 0.5), "garden": (2.0, 6.0), "kitchen": (20.0, 2.0)}
START = datetime(2026, 1, 1, tzinfo=UTC)


def reading(sensor: str, number: int) -> bytes | None:
    """Return the message of a sensor's minute; None if it never reaches the radio."""
    if number % 50 == 49:
        return None
    if number % 200 == 120:
        return b"~~~"
    mean, swing = SENSORS[sensor]
    day = math.sin(2 * math.pi * (number / 1440 - 0.4))
    return json.dumps(
        {
            "sensor": sensor,
            "at": (START + timedelta(minutes=number)).isoformat(),
            "celsius": round(mean + swing * day + 0.1 * (7 * number % 5 - 2), 1),
        }
    ).encode()


def main(count: int = 1440) -> None:
    """Send so many minutes of each sensor; waits while nobody takes them."""
    server = os.environ["SENSORS_KEY"].encode()
    with zmq.Context() as context:
        radios = {}
        for sensor in SENSORS:
            radio = radios[sensor] = context.socket(zmq.PUSH)
            radio.curve_publickey, radio.curve_secretkey = zmq.curve_keypair()
            radio.curve_serverkey = server
            radio.connect(os.environ["SENSORS_ADDRESS"].replace("*", "127.0.0.1"))
        sent = 0
        for number in range(count):
            for sensor, radio in radios.items():
                message = reading(sensor, number)
                if message is not None:
                    frames = [sensor.encode(), number.to_bytes(8, "big"), message]
                    radio.send_multipart(frames)
                    sent += 1
    print(f"sent {sent:,} of {len(SENSORS) * count:,} readings")


def keys() -> None:
    """Print a pair of keys, to be read by a shell."""
    public, secret = (key.decode() for key in zmq.curve_keypair())
    print(f"export SENSORS_KEY='{public}' SENSORS_SECRET='{secret}'")


if __name__ == "__main__":
    if sys.argv[1:] == ["keys"]:
        keys()
    else:
        main(*map(int, sys.argv[1:]))
