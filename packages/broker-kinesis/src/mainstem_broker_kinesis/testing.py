"""Two emulators of Kinesis; each has shards, splits and merges, and neither limits anybody."""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from mainstem_testkit.server import (
    PATIENCE,
    Server,
    ServerFailed,
    ServerMissing,
    free_port,
)

#: Names the folder that holds `node_modules` with both emulators.
HOME = "MAINSTEM_KINESIS_HOME"
REGION = "us-east-1"
#: How long the emulators take to create, delete or change a stream, in milliseconds.
_QUICK = 50
_PATIENCE = 10.0
#: kinesalite throws what a client does that goes away within a request, and would end by it.
_GUARD = """process.on('uncaughtException', (error) => {
  if (error.code === 'ECONNRESET') return
  console.error(error)
  process.exit(1)
})
"""
#: The emulators want a signature to be there, and do not look at it.
_SIGNED = (
    f"AWS4-HMAC-SHA256 Credential=test/20000101/{REGION}/kinesis/aws4_request, "
    "SignedHeaders=host;x-amz-date;x-amz-target, Signature=0"
)
#: Settings of AWS's clients, in the environment of who calls an emulator: it takes any credentials.
CREDENTIALS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class KinesisError(Exception):
    """An emulator's answer that is an error, as AWS names it.

    Attributes:
        code: AWS's name of the error: `ResourceNotFoundException`.
    """

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.code = code


class Kinesis(Server):
    """What both emulators share. All that they hold ends with them: a restart is a new Kinesis.

    Args:
        folder: for the log.
        clock: how many times as fast as the true clock the emulator's runs, by `faketime`: 50 makes
            the 300 seconds after which an iterator expires 6.
        offset: how far ahead of the true clock the emulator's is, in seconds; negative is behind.
    """

    def __init__(self, folder: Path, *, clock: float = 1, offset: float = 0) -> None:
        super().__init__(folder)
        self._clock, self._offset = clock, offset

    @property
    def url(self) -> str:
        """The endpoint that a client is given."""
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        self._argv()

    def answers(self) -> bool:
        """Ask for the names of the streams."""
        try:
            return "StreamNames" in self.call("ListStreams")
        except (KinesisError, http.client.HTTPException, ValueError):
            return False

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        """Do one operation of Kinesis's interface, as its reference describes it, without AWS's client.

        Args:
            operation: `DescribeStream`.
            request: its arguments by their own names: `StreamName="s"`; data is base64.

        Raises:
            KinesisError: it answers with an error.
            OSError: it does not answer.
        """
        return call(self.port, operation, request)

    def create(self, stream: str, shards: int = 1) -> str:
        """Create a stream, wait until it can be used, and return its name."""
        self.call("CreateStream", StreamName=stream, ShardCount=shards)
        return self.settle(stream)

    def settle(self, stream: str) -> str:
        """Wait until a stream that was created or changed can be used, and return its name.

        Raises:
            ServerFailed: it can't be in a minute.
        """
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            found = self.call("DescribeStream", StreamName=stream)["StreamDescription"]
            if found["StreamStatus"] == "ACTIVE":
                return stream
            time.sleep(0.02)
        raise ServerFailed(f"{self.name}: stream {stream} is still {found['StreamStatus']}")

    def shards(self, stream: str) -> list[dict[str, Any]]:
        """Return all shards of a stream, closed ones too, as `DescribeStream` tells them."""
        found: list[dict[str, Any]] = []
        more: dict[str, Any] = {}
        while True:
            told = self.call("DescribeStream", StreamName=stream, **more)["StreamDescription"]
            found += told["Shards"]
            if not told["HasMoreShards"]:
                return found
            more = {"ExclusiveStartShardId": found[-1]["ShardId"]}

    def split(self, stream: str, shard: str, at: int | None = None) -> None:
        """Split a shard at a hash key, or in the middle, and wait until that is done."""
        (range_,) = [s["HashKeyRange"] for s in self.shards(stream) if s["ShardId"] == shard]
        if at is None:
            at = (int(range_["StartingHashKey"]) + int(range_["EndingHashKey"]) + 1) // 2
        asked = {"StreamName": stream, "ShardToSplit": shard, "NewStartingHashKey": str(at)}
        self.call("SplitShard", **asked)
        self.settle(stream)

    def merge(self, stream: str, shard: str, adjacent: str) -> None:
        """Merge two shards whose ranges touch, and wait until that is done."""
        asked = {"StreamName": stream, "ShardToMerge": shard, "AdjacentShardToMerge": adjacent}
        self.call("MergeShards", **asked)
        self.settle(stream)

    def put(self, stream: str, key: str, data: bytes, hash_key: int | None = None) -> str:
        """Put one record, and return its sequence number."""
        more = {} if hash_key is None else {"ExplicitHashKey": str(hash_key)}
        text = base64.b64encode(data).decode()
        done = self.call("PutRecord", StreamName=stream, PartitionKey=key, Data=text, **more)
        return str(done["SequenceNumber"])

    def records(self, stream: str) -> dict[str, list[dict[str, Any]]]:
        """Return all records by shard, in its order, as `GetRecords` tells them; data as bytes."""
        found: dict[str, list[dict[str, Any]]] = {}
        for shard in self.shards(stream):
            asked = {"StreamName": stream, "ShardId": shard["ShardId"]}
            start = self.call("GetShardIterator", **asked, ShardIteratorType="TRIM_HORIZON")
            iterator = start["ShardIterator"]
            mine = found[shard["ShardId"]] = []
            while iterator:
                told = self.call("GetRecords", ShardIterator=iterator)
                mine += told["Records"]
                iterator = told.get("NextShardIterator")
                if not told["Records"] and not told.get("MillisBehindLatest"):
                    break
        for record in (r for records in found.values() for r in records):
            record["Data"] = base64.b64decode(record["Data"])
        return found

    def _argv(self) -> list[str]:
        """Return the command that runs this emulator's script, without arguments.

        Raises:
            ServerMissing: the emulator, Node or faketime is not there.
        """
        script = home() / "node_modules" / self._script()
        argv = [node(), str(script)]
        if self._clock == 1 and not self._offset:
            return argv
        faketime = shutil.which("faketime")
        if faketime is None:
            raise ServerMissing("faketime is not installed: apt-get install faketime")
        return [faketime, "-f", f"{self._offset:+}s x{self._clock}", *argv]

    def _script(self) -> str:
        raise NotImplementedError


class KinesisLocal(Kinesis):
    """The emulator kinesis-local, which knows shards, their children and expired iterators best."""

    name = "kinesis_local"

    def __init__(self, folder: Path, *, clock: float = 1, offset: float = 0) -> None:
        super().__init__(folder, clock=clock, offset=offset)
        self._tls_port = free_port()

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        argv = self._argv()
        changes = "CREATE_STREAM DELETE_STREAM SPLIT_SHARD MERGE_SHARDS UPDATE_SHARD_COUNT"
        return argv, {
            "KINESIS_MOCK_PLAIN_PORT": str(self.port),
            "KINESIS_MOCK_TLS_PORT": str(self._tls_port),
            "KINESIS_MOCK_CERT_PATH": str(Path(argv[-1]).parent / "server.json"),
            "LOG_LEVEL": "ERROR",
            "SHARD_LIMIT": "1000",
            **{f"{change}_DURATION": f"{_QUICK}ms" for change in changes.split()},
        }

    def _script(self) -> str:
        return "kinesis-local/main.js"


class Kinesalite(Kinesis):
    """The emulator kinesalite, which is quicker, and checks what it is asked more as AWS does."""

    name = "kinesalite"

    def prepare(self) -> None:
        super().prepare()
        self._guard.write_text(_GUARD)

    @property
    def _guard(self) -> Path:
        return self.folder / "guard.js"

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        quick = [
            part
            for what in ("create", "delete", "update")
            for part in (f"--{what}StreamMs", _QUICK)
        ]
        given = ["--port", self.port, *quick, "--shardLimit", 1000]
        *starter, script = self._argv()
        guarded = [*starter, "--require", str(self._guard), script]
        return [*guarded, *map(str, given)], {}

    def _script(self) -> str:
        return "kinesalite/cli.js"


def call(port: int, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Do one operation at a port of this machine; see `Kinesis.call`."""
    headers = {
        "Content-Type": "application/x-amz-json-1.1",
        "X-Amz-Target": f"Kinesis_20131202.{operation}",
        "X-Amz-Date": "20000101T000000Z",
        "Authorization": _SIGNED,
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    with closing(connection):
        connection.request("POST", "/", json.dumps(request), headers)
        answer = connection.getresponse()
        text = answer.read()
    told: dict[str, Any] = json.loads(text) if text.strip() else {}
    if answer.status == http.HTTPStatus.OK:
        return told
    message = str(told.get("message", told.get("Message", text[:500])))
    raise KinesisError(operation, str(told.get("__type", answer.status)), message)


def home() -> Path:
    """Return the emulators' folder: `MAINSTEM_KINESIS_HOME`, or `.tools/kinesis` here or above.

    Raises:
        ServerMissing: there is none.
    """
    named = os.environ.get(HOME)
    here = Path.cwd()
    places = [Path(named)] if named else [up / ".tools/kinesis" for up in (here, *here.parents)]
    for place in places:
        if (place / "node_modules").is_dir():
            return place
    looked = ", ".join(map(str, places))
    raise ServerMissing(
        f"the emulators are in none of: {looked} ({HOME}); services/kinesis.sh fetches them"
    )


def node() -> str:
    """Return the path of Node: that of this repository's tools, or the one on PATH.

    Raises:
        ServerMissing: there is none.
    """
    beside = home().parent / "node/bin/node"
    found = str(beside) if beside.exists() else shutil.which("node")
    if found is None:
        raise ServerMissing(f"Node is neither at {beside} nor on PATH: run services/node.sh")
    return found
