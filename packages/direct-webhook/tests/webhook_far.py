"""The far side of the sink: an HTTP endpoint in a process of its own that does as it is told.

Each test has a name, which is the first part of the path. `tell` says how requests of that name are
answered; what came is in a file that outlives the process. Run as a script, it is the server:
`webhook_far.py PORT FOLDER`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import urllib.request
import uuid
from collections import defaultdict
from pathlib import Path

from mainstem_testkit.server import Server


class FarEndpoint(Server):
    """Starts, kills and pauses the endpoint."""

    name = "webhook_far"

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def prepare(self):
        (self.folder / "came").mkdir()

    def command(self):
        return [sys.executable, __file__, str(self.port), str(self.folder / "came")], {}

    def answers(self):
        with self.connect() as connection:
            connection.sendall(b"GET /-/up HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            return connection.recv(12).endswith(b"200")

    def place(self, name=""):
        """Return what one test sees of the endpoint."""
        return Place(self, name or uuid.uuid4().hex[:12])


class Place:
    """One name at the endpoint."""

    def __init__(self, server, name):
        self.server = server
        self.name = name
        self.url = f"{server.url}/{name}/hook"

    def tell(self, *script, **otherwise):
        """Say how the next requests are answered, one by one, and all later ones.

        An answer has any of `status`, `headers`, `body`; `hold: true` (not before `release`); `short:
        true` (the connection ends within the body); `refuse: TEXT` (422 if the body has that text),
        `most` (413 for longer bodies), `forget: true` (nothing is noted).
        """
        self._control("tell", {"script": script, "otherwise": otherwise})

    def release(self):
        """Answer what is held, and hold nothing more."""
        self._control("release", {})

    def state(self):
        """Return `waiting`, `most` (at a time) and `connections` (their number)."""
        with urllib.request.urlopen(f"{self.server.url}/-/state/{self.name}") as answer:
            return json.load(answer)

    def came(self):
        """Return all requests in the order in which they came: `headers`, `body`, `status`, ..."""
        file = self.server.folder / "came" / self.name
        # What is behind the last line break is still being written.
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        rows = [json.loads(line) for line in lines]
        return [{**row, "body": base64.b64decode(row["body"])} for row in rows]

    def bodies(self):
        return [row["body"] for row in self.came()]

    def taken(self):
        """Return the requests that were answered with 2xx, but for those whose key was seen before."""
        found = {}
        for row in self.came():
            if 200 <= row["status"] <= 299:
                found.setdefault(row["headers"]["idempotency-key"], row)
        return list(found.values())

    def _control(self, what, body):
        url = f"{self.server.url}/-/{what}/{self.name}"
        with urllib.request.urlopen(url, json.dumps(body).encode()):
            pass


class _Told:
    """How requests of a name are answered, and what is known of them."""

    def __init__(self):
        self.script = []
        self.otherwise = {}
        self.released = asyncio.Event()
        self.waiting = self.most = 0
        self.connections = set()

    def next(self):
        return self.script.pop(0) if self.script else self.otherwise


def make_app(folder):
    """Return the application; what comes is noted in `folder`."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    told = defaultdict(_Told)

    async def up(request):
        return Response("up")

    async def tell(request):
        found, body = told[request.path_params["name"]], await request.json()
        found.script, found.otherwise = list(body["script"]), body["otherwise"]
        found.released.clear()
        return Response("")

    async def release(request):
        found = told[request.path_params["name"]]
        found.released.set()
        return Response("")

    async def state(request):
        found = told[request.path_params["name"]]
        return JSONResponse(
            {"waiting": found.waiting, "most": found.most, "connections": len(found.connections)}
        )

    async def hook(request):
        name = request.path_params["name"]
        found = told[name]
        found.connections.add(request.client.port)
        found.waiting += 1
        found.most = max(found.most, found.waiting)
        try:
            body = await request.body()
            answer = found.next()
            if answer.get("hold"):
                await found.released.wait()
        finally:
            found.waiting -= 1
        status = answer.get("status", 202)
        if "refuse" in answer and answer["refuse"].encode() in body:
            status = 422
        if len(body) > answer.get("most", len(body)):
            status = 413
        note = {
            "path": request.url.path,
            "query": request.url.query,
            "method": request.method,
            "headers": dict(request.headers),
            "names": [key.decode() for key, _ in request.headers.raw],
            "body": base64.b64encode(body).decode(),
            "status": status,
        }
        if not answer.get("forget"):
            with (Path(folder) / name).open("ab", buffering=0) as file:
                file.write(json.dumps(note).encode() + b"\n")
        headers = dict(answer.get("headers", {}))
        if answer.get("short"):
            headers["content-length"] = "1000"  # more than comes, so the server ends the connection
        return Response(answer.get("body", ""), status, headers)

    methods = ["POST", "PUT"]
    return Starlette(
        routes=[
            Route("/-/up", up),
            Route("/-/tell/{name}", tell, methods=["POST"]),
            Route("/-/release/{name}", release, methods=["POST"]),
            Route("/-/state/{name}", state),
            Route("/{name}/{rest:path}", hook, methods=methods),
        ]
    )


def serve(port, folder):
    import uvicorn

    uvicorn.run(
        make_app(folder),
        host="127.0.0.1",
        port=port,
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
        ssl_certfile=os.environ.get("FAR_CERTIFICATE"),
        ssl_keyfile=os.environ.get("FAR_KEY"),
    )


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
