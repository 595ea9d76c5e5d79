"""Test server: an emulation of MongoDB, for there is no real one to be had in a package registry.

It speaks the protocol (OP_MSG) with what `mainstem-cdc-mongodb` and tests ask: writes by simple
conditions, transactions, finds by id and as of a time, change streams with tokens, images before and
after, and large events in fragments. What it tells is made after MongoDB's documentation; it shows that
the source does what that says, and not that a real server does. What was written is in a file, so that it
can be killed.

    python -m mainstem_cdc_mongodb.testing PORT FILE
"""

from __future__ import annotations

import copy
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import bson
from bson import Timestamp
from mainstem_testkit.server import Server, receive

_MESSAGE, _REPLY, _QUERY = 2013, 1, 2004
#: How often the time of an idle server goes on, in seconds; ten at a real one.
_IDLE = 0.1
#: Above so many bytes an event is taken apart, and documents do not come in one answer; 16 MiB at a real
#: one.
_EVENT, _ANSWER = 64 * 1024, 256 * 1024
_CODEC: Any = bson.CodecOptions(
    tz_aware=True,
    datetime_conversion=bson.DatetimeConversion.DATETIME_AUTO,
    uuid_representation=bson.UuidRepresentation.STANDARD,
)
_SET = "emulation"


class MongoDB(Server):
    """The emulation, with a database `test`; nobody needs a password."""

    name = "mongodb"

    @property
    def url(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/test?directConnection=true"

    def prepare(self) -> None:
        """Nothing is to be prepared."""

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        file = str(self.folder / "oplog.bson")
        return [sys.executable, "-m", "mainstem_cdc_mongodb.testing", str(self.port), file], {}

    def answers(self) -> bool:
        """Ask who it is."""
        asked = struct.pack("<iB", 0, 0) + bson.encode({"hello": 1, "$db": "admin"})
        with self.connect() as connection:
            connection.sendall(struct.pack("<iiii", len(asked) + 16, 1, 0, _MESSAGE) + asked)
            (size,) = struct.unpack("<i", receive(connection, 4))
            return bool(receive(connection, size - 4))


class _FailedError(Exception):
    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(text)
        self.answer = {"ok": 0.0, "code": code, "codeName": name, "errmsg": text}


def _fail(code: int, name: str, text: str) -> NoReturn:
    raise _FailedError(code, name, text)


# -- what is stored -------------------------------------------------------------------------------


@dataclass
class _Kept:
    """A collection: versions of its documents by id, each since a time, and its options."""

    options: dict[str, Any] = field(default_factory=dict)
    versions: dict[bytes, list[tuple[Timestamp, dict[str, Any] | None]]] = field(
        default_factory=dict
    )

    def at(self, seen: Timestamp | None = None) -> list[dict[str, Any]]:
        """Return the documents as of a time, by id."""
        found = []
        for versions in self.versions.values():
            now = [each for since, each in versions if seen is None or since <= seen]
            if now and now[-1] is not None:
                found.append(now[-1])
        return sorted(found, key=lambda each: _order(each["_id"]))

    def document(self, key: Any) -> dict[str, Any] | None:
        versions = self.versions.get(_bytes(key), [])
        return versions[-1][1] if versions else None


def _bytes(key: Any) -> bytes:
    return bson.encode({"": key}, codec_options=_CODEC)


def _order(value: Any) -> tuple[int, Any]:
    """Return what ids are ordered by: first their type, then their value."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return 1, value
    if isinstance(value, str):
        return 2, value
    if isinstance(value, dict):
        return 3, _bytes(value)
    if isinstance(value, bson.ObjectId):
        return 7, value.binary
    return 9, _bytes(value)


class _Store:
    """Collections, and the log that they are made of."""

    def __init__(self, file: Path) -> None:
        self.lock = threading.Condition()
        self.log: list[dict[str, Any]] = []
        #: The log was forgotten up to here.
        self.first = Timestamp(0, 1)
        self.collections: dict[tuple[str, str], _Kept] = {}
        self.time = Timestamp(int(time.time()), 1)
        for entry in _entries(file):
            self._apply(entry)
        self._file = file.open("ab")
        threading.Thread(target=self._go_on, daemon=True).start()

    def _go_on(self) -> None:
        while True:
            time.sleep(_IDLE)
            with self.lock:
                self.tick()
                self.lock.notify_all()

    def tick(self) -> Timestamp:
        """Return a new time."""
        now = int(time.time())
        last = self.time
        self.time = Timestamp(now, 1) if now > last.time else Timestamp(last.time, last.inc + 1)
        return self.time

    def write(self, operations: list[dict[str, Any]], transaction: Any = None) -> None:
        """Let operations happen at one time."""
        if not operations:
            return
        entry = {
            "ts": self.tick(), "wall": time.time(), "operations": operations, "transaction": transaction,
        }  # fmt: skip
        self._file.write(bson.encode(entry, codec_options=_CODEC))
        self._file.flush()
        self._apply(entry)
        self.lock.notify_all()

    def _apply(self, entry: dict[str, Any]) -> None:
        if "forgotten" in entry:
            self.first = entry["forgotten"]
            self.log = [each for each in self.log if each["ts"] >= self.first]
            return
        self.log.append(entry)
        self.time = max(self.time, entry["ts"])
        for each in entry["operations"]:
            place = each["db"], each["coll"]
            kind = each["kind"]
            if kind == "drop":
                self.collections.pop(place, None)
            elif kind == "rename":
                self.collections[each["to"]["db"], each["to"]["coll"]] = self.collections.pop(place)
            elif kind == "options":
                self.collections.setdefault(place, _Kept()).options |= each["options"]
            else:
                kept = self.collections.setdefault(place, _Kept())
                versions = kept.versions.setdefault(_bytes(each["id"]), [])
                versions.append((entry["ts"], each.get("after")))

    def forget(self) -> None:
        """Let go of the log so far."""
        entry = {"forgotten": self.tick()}
        self._file.write(bson.encode(entry, codec_options=_CODEC))
        self._file.flush()
        self._apply(entry)


def _entries(file: Path) -> Iterator[dict[str, Any]]:
    """Yield what is in a file, up to what a kill has left unwritten."""
    data = file.read_bytes() if file.exists() else b""
    at = 0
    while len(data) - at >= 4:
        (size,) = struct.unpack_from("<i", data, at)
        if len(data) - at < size:
            break
        yield bson.decode(data[at : at + size], _CODEC)
        at += size
    if at < len(data):
        file.write_bytes(data[:at])


# -- change streams -------------------------------------------------------------------------------


def _token(stamp: Timestamp, number: int | None) -> str:
    """Return the token of an operation; of a time without one when there is no number."""
    time_ = f"82{stamp.time:08X}{stamp.inc:08X}"
    return f"{time_}2B0229296E04" if number is None else f"{time_}2B042C{number:08X}296E5A1004"


@dataclass
class _Stream:
    """A cursor on a change stream."""

    database: str
    options: Mapping[str, Any]
    pipeline: Sequence[Mapping[str, Any]]
    token: str
    #: Of an event that was taken apart, what is still to be sent.
    rest: list[dict[str, Any]] = field(default_factory=list)

    def events(self, store: _Store, most: int) -> list[dict[str, Any]]:
        """Return the next events, and move the token."""
        if self.token[2:18] < f"{store.first.time:08X}{store.first.inc:08X}" and store.first.time:
            _fail(286, "ChangeStreamHistoryLost", "the resume point may no longer be in the oplog")
        found: list[dict[str, Any]] = []
        if self.rest:  # together they are too large for one answer
            found, self.rest = self.rest[:1], self.rest[1:]
            self.token = found[-1]["_id"]["_data"]
            return found
        for entry in store.log:
            for number, each in enumerate(entry["operations"]):
                token = _token(entry["ts"], number)
                if token <= self.token or each["kind"] == "options":
                    continue
                event = self._event(store, entry, each, token)
                if not self._matches(event):
                    continue
                if len(found) >= most:
                    return found
                parts = self._parts(event)
                found.append(parts[0])
                self.token = found[-1]["_id"]["_data"]
                if len(parts) > 1:
                    self.rest = parts[1:]
                    return found
        if not found:
            self.token = max(self.token, _token(store.time, None))
        return found

    def _parts(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        splits = any("$changeStreamSplitLargeEvent" in stage for stage in self.pipeline)
        if not splits or len(bson.encode(event, codec_options=_CODEC)) < _EVENT:
            return [event]
        large = [name for name in event if name.startswith("full") or name == "updateDescription"]
        small = {name: value for name, value in event.items() if name not in large}
        token = event["_id"]["_data"]
        parts = [small, *({name: event[name]} for name in large)]
        return [
            {
                **part,
                "_id": {"_data": token + f"{at:02X}" if at < len(parts) else token + "FF"},
                "splitEvent": {"fragment": at, "of": len(parts)},
            }
            for at, part in enumerate(parts, 1)
        ]

    def _matches(self, event: Mapping[str, Any]) -> bool:
        if not self.options.get("allChangesForCluster") and event["ns"]["db"] != self.database:
            return False
        for stage in self.pipeline:
            if "$match" in stage and not any(
                all(_holds(_of(event, path), wanted) for path, wanted in each.items())
                for each in stage["$match"]["$or"]
            ):
                return False
        return True

    def _event(
        self, store: _Store, entry: Mapping[str, Any], each: Mapping[str, Any], token: str
    ) -> dict[str, Any]:
        kind = each["kind"]
        event: dict[str, Any] = {
            "_id": {"_data": token},
            "operationType": kind,
            "clusterTime": entry["ts"],
            "wallTime": bson.datetime_ms.DatetimeMS(int(entry["wall"] * 1000)),
            "ns": {"db": each["db"], "coll": each["coll"]},
        }
        if kind in ("drop", "rename"):
            return event | ({"to": each["to"]} if kind == "rename" else {})
        event["documentKey"] = {"_id": each["id"]}
        if entry["transaction"] is not None:
            event |= {
                "txnNumber": bson.Int64(entry["transaction"]["number"]),
                "lsid": {"id": b"\0" * 16},
            }
        kept = store.collections.get((each["db"], each["coll"]), _Kept())
        images = each["images"]
        if kind in ("insert", "replace"):
            event["fullDocument"] = each["after"]
        if kind == "update":
            event["updateDescription"] = each["description"]
            mode = self.options.get("fullDocument", "default")
            if mode == "updateLookup":
                event["fullDocument"] = kept.document(each["id"])
            elif mode == "whenAvailable":
                event["fullDocument"] = each["after"] if images else None
        before = self.options.get("fullDocumentBeforeChange")
        if kind != "insert" and before == "whenAvailable":
            event["fullDocumentBeforeChange"] = each["before"] if images else None
        return event


def _of(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def _holds(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and any(name.startswith("$") for name in wanted):
        tests: dict[str, Callable[[Any], Any]] = {
            "$in": lambda given: value in given,
            "$gte": lambda given: value is not None and value >= given,
            "$lt": lambda given: value is not None and value < given,
        }
        for name, given in wanted.items():
            if name not in tests:
                _fail(2, "BadValue", f"unknown operator: {name}")
            if not tests[name](given):
                return False
        return True
    return bool(value == wanted)


# -- commands -------------------------------------------------------------------------------------


class _Session:
    """One connection's commands."""

    def __init__(self, store: _Store, port: int) -> None:
        self._store = store
        self._port = port

    #: By session and number, the operations of transactions that go on; and cursors by id.
    transactions: dict[tuple[bytes, int], list[dict[str, Any]]] = {}
    cursors: dict[int, _Stream] = {}

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a command."""
        name = next(iter(command))
        does = getattr(self, f"_{name.lower()}", None)
        try:
            if does is None:
                _fail(59, "CommandNotFound", f"no such command: '{name}'")
            with self._store.lock:
                found = does(command, str(command.get("$db", "")))
                return {**found, "ok": 1.0, "operationTime": self._store.time}
        except _FailedError as error:
            return error.answer

    def _hello(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        here = f"127.0.0.1:{self._port}"
        return {
            "isWritablePrimary": True, "ismaster": True, "helloOk": True, "setName": _SET,
            "hosts": [here], "me": here, "primary": here, "maxBsonObjectSize": 2**24,
            "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
            "logicalSessionTimeoutMinutes": 30, "minWireVersion": 0, "maxWireVersion": 21,
            "localTime": bson.datetime_ms.DatetimeMS(int(time.time() * 1000)),
        }  # fmt: skip

    _ismaster = _hello

    def _ping(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        return {}

    _endsessions = _killcursors = _ping

    def _buildinfo(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        return {"version": "7.0.0", "versionArray": [7, 0, 0, 0]}

    def _forget(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        self._store.forget()
        return {}

    def _create(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        name = next(iter(command))
        options = {
            k: command[k] for k in ("changeStreamPreAndPostImages", "viewOn") if k in command
        }
        of = {"kind": "options", "db": database, "coll": command[name], "options": options}
        self._store.write([of])
        return {}

    _collmod = _create

    def _listcollections(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        found = []
        for (space, name), kept in sorted(self._store.collections.items()):
            kind = "view" if "viewOn" in kept.options else "collection"
            told = {"name": name, "type": kind, "options": kept.options}
            wanted = command.get("filter", {})
            if space == database and all(told[k] == v for k, v in wanted.items()):
                found.append(told)
        return _batch(found, f"{database}.$cmd.listCollections")

    def _count(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        return {"n": len(self._kept(database, command["count"]).at())}

    def _kept(self, database: str, name: str) -> _Kept:
        return self._store.collections.get((database, name)) or _Kept()

    def _find(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        seen = command.get("readConcern", {}).get("atClusterTime")
        if seen is not None and (
            seen > self._store.time or seen.time < self._store.time.time - 300
        ):
            _fail(246, "SnapshotUnavailable", "no snapshot of this time")
        found = self._kept(database, command["find"]).at(seen)
        if "min" in command:
            first = _order(command["min"]["_id"])
            found = [each for each in found if _order(each["_id"]) >= first]
        wanted = command.get("filter", {})
        found = [e for e in found if all(_holds(_of(e, path), v) for path, v in wanted.items())]
        found = found[command.get("skip", 0) :][: command.get("limit") or None]
        fitting: list[dict[str, Any]] = []
        size = 0
        for each in found:  # one at least, and no more than fits into an answer
            size += len(bson.encode(each, codec_options=_CODEC))
            if fitting and size > _ANSWER:
                break
            fitting.append(each)
        return _batch(fitting, f"{database}.{command['find']}")

    def _aggregate(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        options = command["pipeline"][0]["$changeStream"]
        token = options.get("startAfter", options.get("resumeAfter", {})).get("_data")
        last = self._store.time
        begin = _token(Timestamp(last.time, last.inc + 1), None) if token is None else token
        if "startAtOperationTime" in options:
            begin = _token(options["startAtOperationTime"], None)
        stream = _Stream(database, options, command["pipeline"], begin)
        stream.events(self._store, 0)  # it may be lost
        stream.token = begin
        number = len(self.cursors) + 1
        self.cursors[number] = stream
        cursor = {"id": bson.Int64(number), "ns": f"{database}.$cmd.aggregate", "firstBatch": []}
        return {"cursor": cursor | {"postBatchResumeToken": {"_data": begin}}}

    def _getmore(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        stream = self.cursors.get(command["getMore"])
        if stream is None:
            _fail(43, "CursorNotFound", "cursor id not found")
        until = time.monotonic() + command.get("maxTimeMS", 1000) / 1000
        while not (found := stream.events(self._store, command.get("batchSize", 101))):
            left = until - time.monotonic()
            if left <= 0:
                break
            self._store.lock.wait(left)
        cursor = {"id": bson.Int64(command["getMore"]), "ns": f"{database}.$cmd.aggregate"}
        told = {"nextBatch": found, "postBatchResumeToken": {"_data": stream.token}}
        return {"cursor": cursor | told}

    # -- writes ---------------------------------------------------------------------------------

    def _insert(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        kept = self._kept(database, command["insert"])
        for document in command["documents"]:
            if kept.document(document["_id"]) is not None:
                error = {"index": 0, "code": 11000, "errmsg": "E11000 duplicate key error"}
                return {"n": 0, "writeErrors": [error]}
            of = self._operation("insert", database, command["insert"], document["_id"])
            self._do(command, [of | {"after": document, "before": None}])
        return {"n": len(command["documents"])}

    def _update(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        count = 0
        for update in command["updates"]:
            for document in self._chosen(database, command["update"], update["q"], update):
                done = _updated(document, update["u"])
                of = self._operation(done.pop("kind"), database, command["update"], document["_id"])
                self._do(command, [of | {"before": document} | done])
                count += 1
        return {"n": count, "nModified": count}

    def _delete(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        count = 0
        for delete in command["deletes"]:
            multi = {"multi": not delete.get("limit")}
            for document in self._chosen(database, command["delete"], delete["q"], multi):
                of = self._operation("delete", database, command["delete"], document["_id"])
                self._do(command, [of | {"before": document, "after": None}])
                count += 1
        return {"n": count}

    def _chosen(
        self, database: str, name: str, wanted: Mapping[str, Any], how: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        found = [
            each
            for each in self._kept(database, name).at()
            if all(_holds(_of(each, path), v) for path, v in wanted.items())
        ]
        return found if how.get("multi") else found[:1]

    def _operation(self, kind: str, database: str, name: str, key: Any) -> dict[str, Any]:
        images = self._kept(database, name).options.get("changeStreamPreAndPostImages", {})
        return {
            "kind": kind, "db": database, "coll": name, "id": key,
            "images": bool(images.get("enabled")),
        }  # fmt: skip

    def _do(self, command: Mapping[str, Any], operations: list[dict[str, Any]]) -> None:
        if "txnNumber" in command and command.get("autocommit") is False:
            key = bytes(command["lsid"]["id"].bytes), int(command["txnNumber"])
            self.transactions.setdefault(key, []).extend(operations)
            return
        self._store.write(operations)

    def _committransaction(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        key = bytes(command["lsid"]["id"].bytes), int(command["txnNumber"])
        self._store.write(self.transactions.pop(key, []), {"number": key[1]})
        return {}

    def _aborttransaction(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        self.transactions.pop((bytes(command["lsid"]["id"].bytes), int(command["txnNumber"])), None)
        return {}

    def _drop(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        self._store.write([{"kind": "drop", "db": database, "coll": command["drop"]}])
        return {}

    def _renamecollection(self, command: Mapping[str, Any], database: str) -> dict[str, Any]:
        (d, _, c), (e, _, f) = (command[w].partition(".") for w in ("renameCollection", "to"))
        to = {"db": e, "coll": f}
        self._store.write([{"kind": "rename", "db": d, "coll": c, "to": to}])
        return {}


def _batch(found: list[dict[str, Any]], of: str) -> dict[str, Any]:
    return {"cursor": {"id": bson.Int64(0), "ns": of, "firstBatch": found}}


def _updated(document: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an update makes of a document: its kind, the document after, and what is told."""
    if not any(name.startswith("$") for name in update):
        return {"kind": "replace", "after": {"_id": document["_id"], **update}}
    after = copy.deepcopy(dict(document))
    told: dict[str, Any] = {"updatedFields": {}, "removedFields": [], "truncatedArrays": []}
    for name, fields in update.items():
        for path, value in fields.items():
            *above, last = path.split(".")
            within = after
            for part in above:
                within = within.setdefault(part, {})
            if name == "$unset":
                within.pop(last, None)
                told["removedFields"].append(path)
                continue
            within[last] = within.get(last, 0) + value if name == "$inc" else value
            told["updatedFields"][path] = within[last]
    return {"kind": "update", "after": after, "description": told}


# -- the protocol ---------------------------------------------------------------------------------


class _Handler(socketserver.StreamRequestHandler):
    store: _Store
    port: int

    def handle(self) -> None:
        session = _Session(self.store, self.port)
        while header := self.rfile.read(16):
            if len(header) < 16:
                return
            size, number, _, kind = struct.unpack("<iiii", header)
            body = self.rfile.read(size - 16)
            if kind == _QUERY:
                end = body.index(0, 4) + 9
                answer = bson.encode(session.answer(_decoded(body[end:])), codec_options=_CODEC)
                reply = struct.pack("<iqii", 8, 0, 0, 1) + answer
                self._send(reply, number, _REPLY)
            elif kind == _MESSAGE:
                answer = bson.encode(session.answer(_command(body)), codec_options=_CODEC)
                self._send(struct.pack("<iB", 0, 0) + answer, number, _MESSAGE)

    def _send(self, body: bytes, number: int, kind: int) -> None:
        self.wfile.write(struct.pack("<iiii", len(body) + 16, 0, number, kind) + body)


def _decoded(data: bytes) -> dict[str, Any]:
    return bson.decode(data, _CODEC)


def _command(body: bytes) -> dict[str, Any]:
    """Return the command of a message: its document, and sequences of others as lists."""
    at, found = 4, {}
    lists: dict[str, Any] = {}
    while at < len(body):
        kind = body[at]
        (size,) = struct.unpack_from("<i", body, at + 1)
        part = body[at + 1 : at + 1 + size]
        if kind == 0:
            found = _decoded(part)
        else:
            end = part.index(0, 4)
            lists[part[4:end].decode()] = bson.decode_all(part[end + 1 :], _CODEC)
        at += 1 + size
    return {**found, **lists}


class _Listening(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main(port: int, file: Path) -> None:
    """Serve until somebody kills this."""
    handler = type("Handler", (_Handler,), {"store": _Store(file), "port": port})
    with _Listening(("127.0.0.1", port), handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
