"""A server that is as strict as Google's where Google's own fake is not, with faults on demand.

It refuses requests that mix ordering keys, sends no more than a stream has room for, tells of each
acknowledgement as subscriptions with exactly-once delivery do, and ends or silences streams.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.empty_pb2 import Empty
from google.pubsub_v1 import types
from google.rpc import error_details_pb2, status_pb2


def of(kind):
    return getattr(types, kind).pb()


class Strict:
    """One topic and one subscription, in memory.

    Attributes:
        address: where it is.
        subscription: what it says of itself, beside its name.
        published: the messages that were taken; `requests` how many requests.
        acknowledged: how often each id was.
        out: ids that are out; `most` how many ever were at a time.
        streams: how many there have been; `wanted` what each began with.
        silent: whether streams say nothing.
        down: whether streams are ended, and refused from then on.
        faults: answers to the next requests of a call, by its name: a code and words each, or None.
        unacknowledged: why an id can't be acknowledged, as often as it is there.
    """

    def __init__(self):
        self.subscription = {}
        self.published, self.requests = [], 0
        self.acknowledged, self.out, self.most = Counter(), set(), 0
        self.streams, self.wanted, self.beats = 0, [], 0
        self.silent = self.down = False
        self.faults = {"Publish": deque(), "Acknowledge": deque()}
        self.unacknowledged = {}
        self._waiting = deque()
        self._numbers = count(1)
        self._lock = threading.Condition()
        self._ending = 0
        self._server = grpc.server(ThreadPoolExecutor(24))
        unary = {
            "Subscriber": {
                "GetSubscription": (self._look, "GetSubscriptionRequest"),
                "Acknowledge": (self._acknowledge, "AcknowledgeRequest"),
                "ModifyAckDeadline": (self._modify, "ModifyAckDeadlineRequest"),
            },
            "Publisher": {
                "GetTopic": (lambda asked, _: of("Topic")(name=asked.topic), "GetTopicRequest"),
                "Publish": (self._publish, "PublishRequest"),
            },
        }
        streamed = grpc.stream_stream_rpc_method_handler(
            self._pull,
            request_deserializer=of("StreamingPullRequest").FromString,
            response_serializer=lambda made: made.SerializeToString(),
        )
        for service, methods in unary.items():
            handlers = {
                name: grpc.unary_unary_rpc_method_handler(
                    answer,
                    request_deserializer=of(kind).FromString,
                    response_serializer=lambda made: made.SerializeToString(),
                )
                for name, (answer, kind) in methods.items()
            }
            if service == "Subscriber":
                handlers["StreamingPull"] = streamed
            made = grpc.method_handlers_generic_handler(f"google.pubsub.v1.{service}", handlers)
            self._server.add_generic_rpc_handlers([made])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(None)

    def put(self, how_many):
        """Let messages wait."""
        with self._lock:
            self._waiting.extend(next(self._numbers) for _ in range(how_many))
            self._lock.notify_all()

    def end_streams(self):
        """End all streams, as servers do from time to time."""
        with self._lock:
            self._ending += 1
            self._lock.notify_all()

    # -- calls ------------------------------------------------------------------------------

    def _look(self, asked, _):
        return of("Subscription")(name=asked.subscription, topic="t", **self.subscription)

    def _pull(self, requests, call):
        first = next(requests)
        mine, room = set(), first.max_outstanding_messages
        with self._lock:
            self.streams += 1
            self.wanted.append(first)
            ending = self._ending

        def heed():
            try:
                for _ in requests:
                    self.beats += 1
            except grpc.RpcError:
                pass

        threading.Thread(target=heed, daemon=True).start()
        silent = self.silent
        while call.is_active():
            with self._lock:
                if self._ending > ending or self.down:
                    call.abort(
                        grpc.StatusCode.UNAVAILABLE,
                        "The service was unable to fulfill your request",
                    )
                mine &= self.out
                free = 0 if silent else room - len(mine)
                part = [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
                ids = [f"{number}-{'x' * 150}" for number in part]
                mine |= set(ids)
                self.out |= set(ids)
                self.most = max(self.most, len(self.out))
                if not part:
                    self._lock.wait(0.05)
                    continue
            given = [
                of("ReceivedMessage")(
                    ack_id=ack,
                    message=of("PubsubMessage")(data=b"%d" % number, message_id=str(number)),
                )
                for number, ack in zip(part, ids, strict=True)
            ]
            yield of("StreamingPullResponse")(received_messages=given)

    def _acknowledge(self, asked, call):
        self._fail("Acknowledge", call)
        told = {}
        with self._lock:
            for each in asked.ack_ids:
                self.acknowledged[each] += 1
                number = int(each.partition("-")[0])
                reasons = self.unacknowledged.get(number)
                if reasons:
                    told[each] = reasons.pop(0)
                else:
                    self.out.discard(each)
            self._lock.notify_all()
        if told:
            held = Packed()
            held.Pack(error_details_pb2.ErrorInfo(reason="x", metadata=told))
            words = "Some acknowledgement ids in the request were invalid"
            code = grpc.StatusCode.FAILED_PRECONDITION
            made = status_pb2.Status(code=code.value[0], message=words, details=[held])
            call.set_trailing_metadata((("grpc-status-details-bin", made.SerializeToString()),))
            call.abort(code, words)
        return Empty()

    def _modify(self, asked, _):
        if not asked.ack_deadline_seconds:
            with self._lock:
                for each in asked.ack_ids:
                    self.out.discard(each)
                    self._waiting.append(int(each.partition("-")[0]))
        return Empty()

    def _publish(self, asked, call):
        self.requests += 1
        if len({each.ordering_key for each in asked.messages}) > 1:
            call.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                "In a single publish request, all messages must have no ordering key or they must all "
                "have the same ordering key.",
            )
        self._fail("Publish", call)
        with self._lock:
            self.published += [(each.ordering_key, each.data) for each in asked.messages]
        return of("PublishResponse")(message_ids=[str(next(self._numbers)) for _ in asked.messages])

    def _fail(self, name, call):
        fault = self.faults[name].popleft() if self.faults[name] else None
        if fault is not None:
            call.abort(grpc.StatusCode[fault[0]], fault[1])
