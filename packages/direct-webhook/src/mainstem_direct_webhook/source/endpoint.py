"""What the options of one path do with a request: is it let in, and which messages are in it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from mainstem_ingress import Message

from mainstem_direct_webhook.source import cloudevents_in, json_text
from mainstem_direct_webhook.source.answers import Answer, Refused
from mainstem_direct_webhook.source.handshakes import make_handshake
from mainstem_direct_webhook.source.options import Keeper, Limits, PathOptions, Place
from mainstem_direct_webhook.source.verifiers import Headers, make_verifier, once

#: Where senders put ids, when neither the options nor the verifier say it.
_ID_HEADERS = (b"webhook-id", b"svix-id", b"idempotency-key")


#: What is said of a body as it came.
_OF_PACKED = (b"content-encoding", b"content-length")


class Head(NamedTuple):
    """A request, but for its body."""

    method: str
    path: str
    #: The values of the path's parameters.
    parameters: Mapping[str, str]
    #: In the order of the request, names in lower case.
    pairs: Sequence[tuple[bytes, bytes]]
    #: By name; of one that comes twice, the last.
    headers: Headers
    #: The client's certificate, as `ssl` tells it; empty if it has shown none.
    peer: Mapping[str, Any]
    #: What stands behind the `?`.
    query: bytes = b""


class _Value:
    """The value of a message, which is parsed when a field of it is first asked for."""

    def __init__(self, value: bytes) -> None:
        self.bytes = value
        self._held: Any = None
        self._parsed = False

    def field(self, path: str) -> bytes | None:
        if not self._parsed:
            self._parsed = True
            with suppress(json_text.NotJSON):
                self._held = json_text.value(json_text.text_of(self.bytes))
        found = json_text.field(self._held, path)
        return None if found is None else found.encode(errors="surrogatepass")


class Endpoint:
    """Reads requests to one path.

    Args:
        path: as in the options, with its parameters.
        ids, max_message, limits: the source's options of these names.
    """

    def __init__(
        self, path: str, options: PathOptions, ids: str, max_message: int, limits: Limits
    ) -> None:
        self.path = path
        self.options = options
        self._ids = ids
        #: The most bytes of a body.
        self.most = min(max_message, limits.parsed_bytes) if options.parses else max_message
        self._verifier = make_verifier(options.verify)
        self._methods = frozenset(options.methods)
        self._allow = ", ".join(sorted(self._methods)).encode()
        self._kinds = None if options.content_types is None else _kinds(options.content_types)
        self._keeper = Keeper(options.headers, self._verifier.never)
        self._key = _finder(options.key)
        self._places = (options.id,) if options.id is not None else self._verifier.ids
        self._handshake = make_handshake(options.handshake)

    def greeting(self, head: Head) -> Answer | None:
        """Return the answer to a request by which a sender makes sure of the path, if it is one."""
        if self._handshake is None:
            return None
        return self._handshake(head.method, head.query, head.headers)

    def admit(self, head: Head, now: float) -> None:
        """Look at a request before its body is read.

        Raises:
            Refused: it is not taken.
        """
        if head.method not in self._methods:
            allowed = [(b"allow", self._allow)]
            raise Refused(405, "This path takes other methods.", allowed)
        if self._kinds is not None and not self._kinds.fullmatch(_kind(head.headers)):
            raise Refused(415, "This path takes other media types.")
        if not self._verifier.body:
            self._verifier.check(once(head.pairs, head.headers), b"", head.peer, now)

    def messages(self, head: Head, body: bytes, now: float) -> list[Message] | Answer:
        """Return a request's messages, or the answer to a request that is a question.

        Raises:
            Refused: it is not taken.
        """
        verifier = self._verifier
        if verifier.body:
            verifier.check(once(head.pairs, head.headers), body, head.peer, now)
        unpacked = self._unpacked(head, body)
        if unpacked is not body:  # what these say is true no more
            pairs = [pair for pair in head.pairs if pair[0] not in _OF_PACKED]
            head, body = head._replace(pairs=pairs), unpacked
        answer = verifier.answer(body)
        if answer is not None:
            return answer
        try:
            return self._read(head, body)
        except (json_text.NotJSON, cloudevents_in.NotEvent) as error:
            raise Refused(400, f"The body can't be read: {error}.") from None

    def _unpacked(self, head: Head, body: bytes) -> bytes:
        """Return the content of a body that is packed; signatures are over the body as it came."""
        coding = head.headers.get(b"content-encoding", b"").strip().lower()
        if coding in (b"", b"identity"):
            return body
        if coding != b"gzip":
            raise Refused(415, "A body is plain or gzip.", [(b"accept-encoding", b"gzip")])
        unpacker = zlib.decompressobj(wbits=31)
        try:
            found = unpacker.decompress(body, self.most + 1)
        except zlib.error:
            raise Refused(400, "The body is not gzip.") from None
        if len(found) > self.most:
            raise Refused(413, f"A body has {self.most:,} bytes at most, unpacked.")
        if not unpacker.eof or unpacker.unused_data:
            raise Refused(400, "The body is not one gzip member.")
        return found

    def _read(self, head: Head, body: bytes) -> list[Message]:
        options = self.options
        most = options.most_parts
        if options.cloudevents:
            events = cloudevents_in.read(_kind(head.headers), head.headers, body, most)
            self._few(events)
            kept = [
                pair
                for pair in self._keeper.kept(head.pairs)
                if pair[0] != "content-type" and not pair[0].startswith("ce-")
            ]
            return [self._event(head, kept, event) for event in events]
        kept = self._keeper.kept(head.pairs)
        if options.split is None:
            value = _Value(body)
            found = self._key(head, value) if self._key else None
            return [Message(body, found, kept, None, head.path, self._identity(head, value))]
        split = json_text.lines if options.split == "ndjson" else json_text.elements
        parts = split(body, most)
        self._few(parts)
        return [self._part(head, kept, number, text) for number, text in enumerate(parts)]

    def _part(self, head: Head, kept: list[tuple[str, bytes]], number: int, text: str) -> Message:
        value = _Value(text.encode())
        found = self._key(head, value) if self._key else None
        number_of = None if any(place.field for place in self._places) else number
        identity = self._identity(head, value, number_of)
        return Message(value.bytes, found, kept, None, head.path, identity)

    def _event(
        self, head: Head, kept: list[tuple[str, bytes]], event: cloudevents_in.Event
    ) -> Message:
        found = self._key(head, _Value(event.value or b"")) if self._key else None
        identity = None if self._ids == "never" else head.path.encode() + b"\0" + event.id
        headers = [*kept, *event.headers]
        return Message(event.value, found, headers, event.timestamp, head.path, identity)

    def _few(self, parts: Sequence[Any]) -> None:
        if len(parts) > self.options.most_parts:
            raise Refused(413, f"A request holds {self.options.most_parts:,} messages at most.")

    def _identity(self, head: Head, value: _Value, number: int | None = None) -> bytes | None:
        """Return what a message is told apart by: its path, its id, and its place in the request."""
        if self._ids == "never":
            return None
        given: bytes | None
        if self._places:
            found = (_find(place, head, value) for place in self._places)
            given = next(filter(None, found), None)
        else:
            given = next((head.headers[n] for n in _ID_HEADERS if head.headers.get(n)), None)
        if not given:
            if self._ids == "always":
                raise Refused(400, "The request has no id.")
            return None
        whole = head.path.encode() + b"\0" + given
        return whole if number is None else b"%s\0%d" % (whole, number)


def _finder(place: Place | None) -> Any:
    return None if place is None else lambda head, value: _find(place, head, value)


def _find(place: Place, head: Head, value: _Value) -> bytes | None:
    """Return what stands at a place; None if nothing does."""
    if place.header is not None:
        return head.headers.get(place.header.lower().encode()) or None
    if place.path is not None:
        return head.parameters[place.path].encode()
    return value.field(place.field or "")


def _kind(headers: Headers) -> str:
    """Return the media type, in lower case and without parameters."""
    kind = headers.get(b"content-type", b"").partition(b";")[0]
    return kind.strip().lower().decode("latin-1")


def _kinds(patterns: Sequence[str]) -> re.Pattern[str]:
    """Return what matches media types; `*` stands for any characters but `/`."""
    each = (re.escape(pattern.lower()).replace(r"\*", "[^/]+") for pattern in patterns)
    return re.compile("|".join(each))
