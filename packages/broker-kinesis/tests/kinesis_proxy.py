"""A proxy before an emulator: it injects what emulators do not do by themselves, and counts calls.

An emulator never limits anybody, never fails, and forgets nothing. So what AWS does now and then is put
in between here, with the answers that its reference describes.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Request = dict[str, Any]
Answer = dict[str, Any]

THROTTLED = "ProvisionedThroughputExceededException"
#: AWS's status for each error that is no 400.
_STATUS = {"InternalFailure": 500, "ServiceUnavailable": 503, "AccessDenied": 403}
_PATIENCE = 60.0


@dataclass(frozen=True)
class Call:
    """One call that reached the proxy.

    Attributes:
        at: when it came, in seconds of the monotonic clock.
        shard: the one that it is about, where it is about one.
        records: how many it brought, or got.
        bytes: how much of data and partition keys these are.
        code: the error that was answered; empty for none, `lost` for an answer that was lost.
        keys: the partition keys of the records that it brought.
    """

    operation: str
    at: float
    shard: str = ""
    records: int = 0
    bytes: int = 0
    code: str = ""
    keys: tuple[str, ...] = ()


@dataclass
class _Rule:
    """What befalls a call; counted down with each that it befalls."""

    operation: str
    times: int
    when: Callable[[Request], bool]
    act: Callable[[Request], Any]
    met: int = 0

    def applies(self, operation: str, request: Request) -> bool:
        return (
            self.met < self.times
            and self.operation in ("*", operation)
            and bool(self.when(request))
        )


class _Failure(Exception):  # noqa: N818
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def _always(_: Request) -> bool:
    return True


@dataclass
class _Faults:
    before: list[_Rule] = field(default_factory=list)
    records: list[_Rule] = field(default_factory=list)
    after: list[_Rule] = field(default_factory=list)


class KinesisProxy:
    """Stands between a client and an emulator, and passes every call on until told else.

    A rule befalls the first calls that fit it, as many as `times` says, and can look at the request
    by `when`. Rules are tried in the order in which they were made; `heal` ends all of them.

    Args:
        port: the emulator's port on 127.0.0.1.

    Attributes:
        url: the endpoint for clients.
        calls: what came, in its order.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock = threading.RLock()
        self._faults = _Faults()
        self._iterators: dict[str, str] = {}
        self.calls: list[Call] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def do_POST(self) -> None:
                proxy._serve(self)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        class Listening(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: object) -> None:
                """Say nothing of clients that have gone."""

        self._server = Listening(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._local = threading.local()
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    def __enter__(self) -> KinesisProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    # -- faults -----------------------------------------------------------------------------

    def fail(
        self,
        operation: str,
        code: str,
        *,
        times: int = 1,
        when: Callable[[Request], bool] = _always,
        message: str = "injected",
    ) -> None:
        """Answer calls with an error and do not pass them on; `*` is every operation.

        `ExpiredIteratorException` befalls `GetRecords`, `ExpiredTokenException` all.
        """

        def act(_: Request) -> None:
            raise _Failure(code, message)

        self._add(self._faults.before, operation, times, when, act)

    def fail_records(
        self,
        code: str,
        *,
        times: int = 1,
        when: Callable[[Answer], bool] = _always,
        message: str = "",
    ) -> None:
        """Let records of `PutRecords` fail, each by itself, while the rest of the call goes through.

        Args:
            code: `ProvisionedThroughputExceededException` or `InternalFailure`.
            times: how many records.
            when: whether a record of the request fails, given as it is there (data in base64).
            message: AWS's own for a throttled record names the shard; this one does if left out.
        """

        def act(_: Request) -> dict[str, str]:
            told = message or (
                f"Rate exceeded for shard shardId-000000000000 in stream s under account {'1' * 12}."
                if code == THROTTLED
                else "Internal service failure."
            )
            return {"ErrorCode": code, "ErrorMessage": told}

        self._add(self._faults.records, "PutRecords", times, when, act)

    def lose_answer(
        self, operation: str, *, times: int = 1, when: Callable[[Request], bool] = _always
    ) -> None:
        """Pass calls on, and cut the connection instead of answering: it is done, and nobody knows."""
        self._add(self._faults.after, operation, times, when, lambda _: None)

    def delay(
        self, operation: str, seconds: float, *, times: int = 1_000_000, when: Any = _always
    ) -> None:
        """Hold calls back for so long before they are passed on."""
        self._add(self._faults.before, operation, times, when, lambda _: time.sleep(seconds))

    def rewrite(
        self,
        operation: str,
        change: Callable[[Request, Answer], Answer | None],
        *,
        times: int = 1_000_000,
        when: Callable[[Request], bool] = _always,
    ) -> None:
        """Give answers as `change` makes them; None stands for an answer that is lost."""
        rule = _Rule(operation, times, when, lambda _: change)
        with self._lock:
            self._faults.after.append(rule)

    def heal(self) -> None:
        """End all faults."""
        with self._lock:
            self._faults = _Faults()

    # -- counts -----------------------------------------------------------------------------

    def count(self, operation: str) -> int:
        """Return how many calls of an operation there were."""
        return sum(call.operation == operation for call in list(self.calls))

    def per_shard(self, operation: str) -> Counter[str]:
        """Return how many calls of an operation each shard got."""
        return Counter(call.shard for call in list(self.calls) if call.operation == operation)

    def busiest(self, operation: str, shard: str, seconds: float = 1.0) -> int:
        """Return the most calls about a shard within any span of so many seconds."""
        times = [c.at for c in list(self.calls) if (c.operation, c.shard) == (operation, shard)]
        return max((sum(at <= t < at + seconds for t in times) for at in times), default=0)

    # -- one call ---------------------------------------------------------------------------

    def _add(self, rules: list[_Rule], operation: str, times: int, when: Any, act: Any) -> None:
        with self._lock:
            rules.append(_Rule(operation, times, when, act))

    def _met(self, rules: list[_Rule], operation: str, request: Request) -> Iterator[_Rule]:
        """Yield the rules that befall a call, each counted."""
        for rule in list(rules):
            with self._lock:
                if not rule.applies(operation, request):
                    continue
                rule.met += 1
            yield rule

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        at = time.monotonic()
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        operation = handler.headers.get("X-Amz-Target", ".").rpartition(".")[2]
        request: Request = json.loads(body) if body else {}
        try:
            for rule in self._met(self._faults.before, operation, request):
                rule.act(request)
            told = self._passed_on(handler, operation, request, body)
        except _Failure as failure:
            self._note(operation, at, request, {}, failure.code)
            error = {"__type": failure.code, "message": str(failure)}
            self._reply(handler, _STATUS.get(failure.code, 400), json.dumps(error).encode())
            return
        status, text = told
        answer: Answer = {}
        with suppress(ValueError):
            answer = json.loads(text) if text else {}
        code = "" if status == http.client.OK else str(answer.get("__type", status))
        for rule in self._met(self._faults.after, operation, request):
            change = rule.act(request)
            changed = change(request, answer) if change is not None else None
            if changed is None:
                self._note(operation, at, request, answer, "lost")
                handler.close_connection = True
                handler.connection.close()
                return
            answer, text = changed, json.dumps(changed).encode()
        self._note(operation, at, request, answer, code)
        self._reply(handler, status, text)

    def _passed_on(
        self, handler: BaseHTTPRequestHandler, operation: str, request: Request, body: bytes
    ) -> tuple[int, bytes]:
        """Return what the emulator answers, with the records that a rule let fail in their places."""
        failed: dict[int, dict[str, str]] = {}
        if operation == "PutRecords" and self._faults.records:
            for index, record in enumerate(request["Records"]):
                for rule in self._met(self._faults.records, operation, record):
                    failed[index] = rule.act(record)
                    break
        if not failed:
            return self._forward(handler, body)
        rest = [r for index, r in enumerate(request["Records"]) if index not in failed]
        answered: list[dict[str, Any]] = []
        if rest:
            status, text = self._forward(handler, json.dumps({**request, "Records": rest}).encode())
            if status != http.client.OK:
                return status, text
            answered = json.loads(text)["Records"]
        others = iter(answered)
        records = [failed.get(index) or next(others) for index in range(len(request["Records"]))]
        count = sum("ErrorCode" in record for record in records)
        return 200, json.dumps({"FailedRecordCount": count, "Records": records}).encode()

    def _forward(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        skipped = {"host", "content-length", "connection", "expect", "accept-encoding"}
        headers = {k: v for k, v in handler.headers.items() if k.lower() not in skipped}
        for fresh in (False, True):
            try:
                with self._connection(fresh) as connection:
                    connection.request("POST", "/", body, headers)
                    answer = connection.getresponse()
                    return answer.status, answer.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                if fresh:
                    raise
        raise AssertionError

    @contextmanager
    def _connection(self, fresh: bool) -> Iterator[http.client.HTTPConnection]:
        """Give this thread's connection; one that a call failed on is not used again."""
        held = getattr(self._local, "connection", None)
        if held is None or fresh:
            held = http.client.HTTPConnection("127.0.0.1", self._target, timeout=_PATIENCE)
        self._local.connection = None
        try:
            yield held
        except BaseException:
            held.close()
            raise
        self._local.connection = held

    def _reply(self, handler: BaseHTTPRequestHandler, status: int, text: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/x-amz-json-1.1")
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)
        handler.wfile.flush()

    def _note(self, operation: str, at: float, request: Request, answer: Answer, code: str) -> None:
        with self._lock:
            shard = str(request.get("ShardId", ""))
            if operation == "GetShardIterator" and "ShardIterator" in answer:
                self._iterators[answer["ShardIterator"]] = shard
            if operation == "GetRecords":
                shard = self._iterators.get(request["ShardIterator"], "")
                if answer.get("NextShardIterator"):
                    self._iterators[answer["NextShardIterator"]] = shard
            brought = request.get("Records", [])
            records = brought or answer.get("Records", [])
            size = sum(
                len(r.get("Data", "")) * 3 // 4 + len(r["PartitionKey"])
                for r in records
                if "PartitionKey" in r
            )
            keys = tuple(record["PartitionKey"] for record in brought)
            self.calls.append(Call(operation, at, shard, len(records), size, code, keys))
