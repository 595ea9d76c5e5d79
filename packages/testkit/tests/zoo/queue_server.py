"""A small queue behind a TCP port: what the zoo's receiver takes from. Messages outlive the process.

All is lines. `put QUEUE TEXT...` answers `ok` when it is on disk, `left QUEUE` the number of messages that
were not done. After `take QUEUE` come `waiting COUNT` and then, as they are there, `NUMBER TEXT`; `done
NUMBER` removes one; what was given and not done is given again when the connection ends. `read QUEUE
AFTER` gives all messages beyond a number, and removes none. `pause` and `resume` hold and go on. A queue
is there from its first `make QUEUE`; another is answered with `error ...`, and so is a wrong `login`.
"""

from __future__ import annotations

import os
import socket
import socketserver
import sys
import threading
from pathlib import Path

from mainstem_testkit.server import Server

PASSWORD = "open sesame"
#: How many messages a connection is given ahead of `done`.
_AHEAD = 400


class QueueServer(Server):
    """The queue as a process of its own."""

    name = "queue"

    @property
    def url(self):
        return f"127.0.0.1:{self.port}"

    def prepare(self):
        pass

    def command(self):
        return [sys.executable, __file__, str(self.port), str(self.folder / "journal")], {}

    def answers(self):
        return ask(self.port, "make none") == "ok"


def ask(port, *requests, seconds=5.0):
    """Return the answer to the last of several requests; raises OSError if there is none."""
    made = socket.create_connection(("127.0.0.1", port), timeout=seconds)
    with made as connection, connection.makefile("rwb") as lines:
        lines.write("".join(f"{request}\n" for request in requests).encode())
        lines.flush()
        for _ in requests:
            line = lines.readline()
    if not line.endswith(b"\n"):
        raise ConnectionError("no answer")
    return line.decode().strip()


class Queue:
    def __init__(self):
        self.texts = []
        self.done = set()
        self.given = set()


class Queues:
    """All queues, as the journal has them; `changed` is told when there is something to give."""

    def __init__(self, file):
        self.changed = threading.Condition()
        self.queues = {}
        for line in file.read_text().splitlines() if file.exists() else []:
            self._apply(line)
        self._journal = file.open("a")

    def write(self, line):
        with self.changed:
            self._apply(line)
            self._journal.write(f"{line}\n")
            self._journal.flush()
            os.fsync(self._journal.fileno())
            self.changed.notify_all()

    def _apply(self, line):
        word, name, *rest = line.split(" ", 2)
        queue = self.queues.setdefault(name, Queue())
        if word == "put":
            queue.texts += rest[0].split(",")
        elif word == "done":
            queue.done.add(int(rest[0]))


def serve(port, file):
    queues = Queues(file)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            self.own, self.paused, self.ended, self.queue, self.name = set(), False, False, None, ""
            try:
                for line in self.rfile:
                    self.answer(line.decode().strip())
            except OSError:
                pass
            finally:
                with queues.changed:
                    self.ended = True
                    if self.queue is not None:
                        self.queue.given -= self.own
                    queues.changed.notify_all()

        def say(self, text):
            self.wfile.write(f"{text}\n".encode())

        def answer(self, line):
            word, _, rest = line.partition(" ")
            name, _, more = rest.partition(" ")
            if word in ("make", "put"):
                queues.write(line)
                self.say("ok")
            elif word == "login":
                if rest != PASSWORD:
                    self.say("error wrong password")
            elif word == "left":
                queue = queues.queues[name]
                self.say(len(queue.texts) - len(queue.done))
            elif word in ("take", "read"):
                if name not in queues.queues:
                    self.say(f"error no queue {name}")
                    return
                self.name, self.queue = name, queues.queues[name]
                after = int(more) if word == "read" else None
                threading.Thread(target=self.give, args=(after,), daemon=True).start()
            elif word == "done":
                self.own.discard(int(name))
                queues.write(f"done {self.name} {name}")
            elif word in ("pause", "resume"):
                with queues.changed:
                    self.paused = word == "pause"
                    queues.changed.notify_all()

        def give(self, after):
            queue = self.queue
            with queues.changed:
                count = sum(1 for n in self.ready(after))
            try:
                self.say(f"waiting {count}")
                while True:
                    with queues.changed:
                        while not self.ended and not list(self.ready(after)):
                            queues.changed.wait()
                        if self.ended:
                            return
                        numbers = list(self.ready(after))[:_AHEAD]
                        if after is None:
                            self.own |= set(numbers)
                            queue.given |= set(numbers)
                        else:
                            after = numbers[-1]
                        # Within the lock: once a pause was heard, nothing more is sent.
                        self.say("\n".join(f"{n} {queue.texts[n]}" for n in numbers))
            except OSError:
                return

        def ready(self, after):
            if self.paused or (after is None and len(self.own) >= _AHEAD):
                return
            queue = self.queue
            for number in range(0 if after is None else after + 1, len(queue.texts)):
                if after is not None or (number not in queue.done and number not in queue.given):
                    yield number

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        server.serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
