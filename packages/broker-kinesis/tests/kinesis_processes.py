"""A receiver's process, started as a run starts it, and the log that it fills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress

from mainstem_broker_kinesis.source.options import KinesisSourceOptions
from mainstem_broker_kinesis.source.source import KinesisSource
from mainstem_ingress.log import Log
from mainstem_ingress.segments import file_of, open_segment
from mainstem_testkit import wait_for


class Taker:
    """A receiver's process, and what it says of itself; use it in a `with`."""

    def __init__(self, folder, options, number=0, **env):
        source = KinesisSource(KinesisSourceOptions.model_validate(options))
        process = source.processes("rows", folder)[number]
        self.told = []
        self.process = subprocess.Popen(
            process.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
        )
        assert process.argv[0] == sys.executable
        self.process.stdin.write(process.stdin)
        self.process.stdin.flush()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.told.append(json.loads(line))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(30)
        self._reader.join(5)
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):
                pipe.close()

    def until(self, seconds=60, **wanted):
        """Wait until it tells something, and return what it tells."""
        return wait_for(
            lambda: next((t for t in reversed(self.told) if wanted.items() <= t.items()), None),
            seconds,
        )

    def end(self):
        """Tell it that it is no longer wanted, and return its exit code."""
        self.process.stdin.close()
        return self.process.wait(60)


def stored(folder):
    """Return the rows of all segments of a log, by receiver and in order."""
    log = Log(folder)
    found = []
    for name in log.receivers():
        for number in range(log.earliest(name), log.end(name)):
            _, batch = open_segment(file_of(log.receiver(name), number))
            found += batch.to_pylist()
    return found
