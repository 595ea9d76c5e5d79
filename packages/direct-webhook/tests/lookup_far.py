"""The far side of `http_lookup`: an HTTP service that never answers the same way twice."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Service:
    """Answers `/customers/<id>`: with a number that grows with each request, or as it was told.

    Attributes:
        asked: how often each path was asked for.
        headers: those of the last request.
        answers: by path, what to answer with, one after another: a status, or (status, headers, body).
        slow: how many seconds each answer takes.
        most: how many requests were in hand at a time at most.
    """

    def __init__(self):
        self.asked = Counter()
        self.headers = {}
        self.answers = {}
        self.slow = 0.0
        self.most = self._now = 0
        self._lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                service._answer(self)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request):
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.asked[request.path] += 1
            number = self.asked.total()
            self.headers = dict(request.headers)
            told = self.answers.get(request.path)
            told = told.pop(0) if told else None
        time.sleep(self.slow)
        status, headers, body = told if isinstance(told, tuple) else (told or 200, {}, None)
        if body is None and status == 200:
            name = request.path.rpartition("/")[2]
            body = json.dumps({"name": f"n{name}", "turn": number, "odd": number % 2 == 1})
        body = (body or "").encode()
        with self._lock:
            self._now -= 1
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        if status != 204:
            request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body if status != 204 else b"")
