"""Plays GitHub: `python hooks.py post` sends deliveries, `check` compares what came of them.

The deliveries are the 329 payloads of the npm package `@octokit/webhooks-examples` (MIT), collected from
GitHub itself. Its archive comes from npm's registry (the one that `NPM_CONFIG_REGISTRY` or npm's own
settings name) and is kept beside this file. Every tenth delivery is sent twice, as GitHub does when it
has not heard the answer; one is forged. `post` ends when each has been answered with 2xx.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ARCHIVE = "webhooks-examples-7.6.1.tgz"
DIGEST = "De6U3XB6O3DtCa7bKgCMzTHdeopqqZ6SNivMYJnK65ierKL1AnNIA0tkRYCRS7lwGT792d+Ps1WbfHlso6MynQ=="
REGISTRY = "https://registry.npmjs.org/"


class Delivery(NamedTuple):
    """One delivery, as GitHub would send it."""

    id: str
    event: str
    body: bytes


def registry() -> str:
    """Return where npm gets its packages from."""
    for name in ("NPM_CONFIG_REGISTRY", "npm_config_registry"):
        if os.environ.get(name):
            return os.environ[name]
    npm = shutil.which("npm")
    if npm is None:
        return REGISTRY
    asked = subprocess.run([npm, "config", "get", "registry"], capture_output=True, text=True)
    found = asked.stdout.strip()
    return found if found.startswith("http") else REGISTRY


def archive() -> bytes:
    """Return the package's archive, from beside this file or from the registry."""
    file = Path(__file__).with_name(ARCHIVE)
    if not file.exists():
        url = f"{registry().rstrip('/')}/@octokit/webhooks-examples/-/{ARCHIVE}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            content = answer.read()
        new = file.with_suffix(".new")
        new.write_bytes(content)
        new.rename(file)
    content = file.read_bytes()
    if base64.b64encode(hashlib.sha512(content).digest()).decode() != DIGEST:
        sys.exit(f"{file} is not what it should be: remove it")
    return content


def deliveries() -> Iterator[Delivery]:
    """Yield the deliveries, in the package's order."""
    with tarfile.open(fileobj=io.BytesIO(archive())) as tar:
        member = tar.extractfile("package/api.github.com/index.json")
        assert member is not None
        events = json.load(member)
    for event in events:
        for number, payload in enumerate(event["examples"]):
            made = uuid.uuid5(uuid.NAMESPACE_URL, f"{event['name']}/{number}")
            body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
            yield Delivery(str(made), event["name"], body)


def send(connection: http.client.HTTPConnection, delivery: Delivery, secret: str) -> int:
    """Send a delivery once; return the status of the answer."""
    signature = hmac.new(secret.encode(), delivery.body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/0000000",
        "X-GitHub-Event": delivery.event,
        "X-GitHub-Delivery": delivery.id,
        "X-Hub-Signature-256": f"sha256={signature}",
    }
    connection.request("POST", "/github", delivery.body, headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def post(port: int, secret: str, patience: float = 120.0) -> None:
    """Send all deliveries, each until it is answered with 2xx."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    until = time.monotonic() + patience
    sent = 0
    for number, delivery in enumerate(deliveries()):
        for _ in range(2 if number % 10 == 0 else 1):
            while True:
                try:
                    status = send(connection, delivery, secret)
                except (OSError, http.client.HTTPException):
                    connection.close()
                    status = 0
                if 200 <= status < 300:
                    break
                if 400 <= status < 500 and status != 429:
                    sys.exit(f"{delivery.event} was refused: {status}")
                if time.monotonic() > until:
                    sys.exit(f"no answer on port {port}: is `mainstem run github.yaml` there?")
                time.sleep(0.2)
            sent += 1
    forged = send(connection, delivery._replace(id="forged"), secret + "?")
    connection.close()
    print(
        f"{sent} requests with {number + 1} deliveries were answered; the forged one with {forged}"
    )


def check(folder: Path) -> None:
    """Compare the table and the files with what was sent; exit 1 if they differ."""
    import pyarrow.parquet as parquet

    expected = {each.id: each for each in deliveries()}
    database = sqlite3.connect(folder / "github.db")
    rows = database.execute("SELECT delivery, event, payload, body FROM deliveries").fetchall()
    database.close()
    for name, found in (("github.db", rows), ("archive", [])):
        if name == "archive":
            for file in sorted((folder / "archive").glob("*/**/*.parquet")):
                columns = ["delivery", "event", "payload", "body"]
                table = parquet.ParquetFile(file).read(columns=columns)
                found += [tuple(row[c] for c in columns) for row in table.to_pylist()]
        wrong = sum(
            delivery not in expected
            or event != expected[delivery].event
            or bytes(body) != expected[delivery].body
            or json.loads(payload) != json.loads(body)
            for delivery, event, payload, body in found
        )
        missing = len(expected.keys() - {row[0] for row in found})
        twice = len(found) - len({row[0] for row in found})
        print(f"{name}: {len(found)} rows, {missing} missing, {twice} twice, {wrong} not as sent")
        if missing or twice or wrong:
            sys.exit(1)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words == ["post"]:
        post(int(os.environ.get("WEBHOOK_PORT", "8080")), os.environ["GITHUB_SECRET"])
    elif words == ["check"]:
        check(Path.cwd())
    else:
        sys.exit("usage: python hooks.py post|check")
