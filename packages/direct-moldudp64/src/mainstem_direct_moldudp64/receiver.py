"""The receiver of the source `moldudp64`: its feeds, and what it asks for again."""

from __future__ import annotations

import json
import select
import socket
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from mainstem import failpoint
from mainstem_ingress import Message, Receiver, Values, lost
from mainstem_ingress.datagrams import address_of, datagram_socket, drops_of

from mainstem_direct_moldudp64.numbers import Missing, Numbers
from mainstem_direct_moldudp64.options import MoldUDP64SourceOptions
from mainstem_direct_moldudp64.packets import Packet, PacketError, read, request

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: The largest datagram; how many packets one call takes of a socket at most; digits of a number.
_LARGEST, _MOST, _WIDTH = 65_535, 500, 20
#: How much of a packet that is refused is kept.
_KEPT = 64 * 1024
_BEGINNING = "the session had begun before anybody listened, and nobody has these messages any more"
_GAP = "neither a feed nor a re-request server had them in time"
_FULL = "too many messages were waiting for them (hold)"
_UNSEEN = (
    "another session began, and the end of this one did not come: whether there were more nobody "
    "knows"
)
#: How many sessions that are over are remembered, and how many may wait at once.
_REMEMBERED, _SESSIONS = 8, 16


class _Request(NamedTuple):
    """What was asked for: when, and how many messages."""

    at: float
    messages: int


class MoldUDP64Receiver(Receiver):
    """Takes packets, and puts their messages in order.

    The cursor has the session and the number that is expected: what was taken and not stored when a
    process was killed is asked for again.
    """

    options: MoldUDP64SourceOptions

    def __init__(self, options: MoldUDP64SourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._origin = " ".join(feed.listen for feed in options.feeds)
        self._servers = [address_of(each) for each in options.servers]
        self._lost = 0
        self._begin(None)

    def _begin(self, cursor: str | None) -> None:
        self._feeds: list[socket.socket] = []
        self._asking: list[socket.socket] = []
        self._paused = False
        known = json.loads(cursor) if cursor else {}
        #: By session what of it has come: the one that is given first, then those that came after.
        self._sessions: dict[bytes, Numbers] = {}
        if known:
            self._sessions[known["session"].encode("latin-1")] = Numbers(known["next"])
        self._look()
        #: The last sessions that are done, of which packets may come late: of one that never ended the
        #: number that is next, for it may go on.
        self._over: dict[bytes, int | None] = {
            each.encode("latin-1"): number for each, number in known.get("over", {}).items()
        }
        #: Those that have said that they end.
        self._ended: set[bytes] = {self._head} if known.get("ended") else set()
        #: When the first session was heard of last; which of its numbers were known to exist since when.
        self._heard = time.monotonic()
        self._marks: deque[tuple[int, float]] = deque()
        #: What was asked for, by the first number; when it was looked last whether to ask again; how
        #: many messages an answer had at most, and whether one came since.
        self._requests: dict[int, _Request] = {}
        self._asked, self._turn = 0.0, 0
        self._largest, self._answered = 0, False
        self._now = self._heard
        #: The messages that are next, and of which session and numbers they are.
        self._values: list[Buffer] = []
        self._runs: list[tuple[str, int, int]] = []

    def connect(self, cursor: str | None) -> None:
        self._begin(cursor)
        for feed in self.options.feeds:
            self._feeds.append(datagram_socket(feed))
        for host, _ in self._servers:
            family = socket.AF_INET if host.version == 4 else socket.AF_INET6
            made = socket.socket(family, socket.SOCK_DGRAM)
            made.setblocking(False)
            self._asking.append(made)
        failpoint("moldudp64.after-connect")

    # -- taking -----------------------------------------------------------------------------------

    def take(self, seconds: float) -> Iterable[Message]:
        if self._paused:
            time.sleep(seconds)
            return []
        found: list[Message] = []
        if self._marks or len(self._sessions) > 1:
            seconds = min(seconds, self.options.ask_every.total_seconds() / 2)
        ready, _, _ = select.select([*self._feeds, *self._asking], [], [], seconds)
        self._now = time.monotonic()
        for made in ready:
            with suppress(BlockingIOError, ConnectionError):
                answers = made in self._asking
                for _ in range(_MOST):
                    self._take(made.recv(_LARGEST), found, answers=answers)
        self._mend(found)
        failpoint("moldudp64.after-take")
        if not self._values:
            return found
        given = self._given()
        return [*given, *found] if found else given

    def _take(self, data: bytes, found: list[Message], *, answers: bool = False) -> None:
        try:
            packet = read(data)
        except PacketError as error:
            refused = f"it is no packet of MoldUDP64: {error}"
            kept = data[:_KEPT]
            found.append(Message(kept, origin=self._origin, refused=refused, extra=(None, None)))
            return
        if answers and packet.messages:
            self._largest = max(self._largest, len(packet.messages))
            self._answered = True
        if packet.session == self._head and packet.messages:  # as nearly always
            current, self._heard = self._current, self._now
            self._give(current.next, current.see(packet.first, packet.messages))
            return
        if packet.session in self._over and self._over[packet.session] is None:
            return
        numbers = self._sessions.get(packet.session)
        if numbers is None:
            # Of others a packet without messages begins none, and there are so many at most: whoever can
            # send one could hold up the sessions that are.
            if self._sessions and (not packet.messages or len(self._sessions) >= _SESSIONS):
                return
            numbers = self._begun(packet)
        if numbers is self._current:
            self._heard = self._now
            self._give(numbers.next, numbers.see(packet.first, packet.messages))
        else:  # what is missing of the one before comes first
            numbers.hold(packet.first, packet.messages)
        if packet.ends:
            self._ended.add(packet.session)

    def _begun(self, packet: Packet) -> Numbers:
        """Note a session that nobody has heard of."""
        whole = bool(self._sessions) or self.options.start == "earliest"
        begins = self._over.pop(packet.session, None) or (1 if whole else packet.first)
        made = self._sessions[packet.session] = Numbers(begins)
        self._look()
        return made

    def _go_on(self, found: list[Message]) -> None:
        """Go on with the next session."""
        session = self._head
        if session not in self._ended:
            told = _text(self._current.next)
            found.append(lost(_UNSEEN, origin=self._origin, first=told, extra=(self._name, None)))
        self._over[session] = None if session in self._ended else self._current.next
        while len(self._over) > _REMEMBERED:
            del self._over[next(iter(self._over))]
        del self._sessions[session]
        self._look()
        self._heard = self._now
        self._marks.clear()
        self._requests.clear()
        numbers = self._current
        self._give(numbers.next, numbers.ready())

    def _give(self, first: int, messages: Sequence[bytes]) -> None:
        if not messages:
            return
        self._values += messages
        if self._runs:
            session, begun, count = self._runs[-1]
            if begun + count == first and session == self._name:
                self._runs[-1] = session, begun, count + len(messages)
                return
        self._runs.append((self._name, first, len(messages)))

    def _given(self) -> Values:
        """Return the messages that were given since it was asked last."""
        values, runs, self._values, self._runs = self._values, self._runs, [], []
        numbers = np.concatenate([np.arange(n, n + count) for _, n, count in runs])
        texts: Any = pa.array(numbers).cast(pa.string())
        positions = pc.utf8_lpad(texts, _WIDTH, "0")
        sessions = pa.concat_arrays([pa.repeat(pa.scalar(name), n) for name, _, n in runs])
        return Values(values, self._origin, extra=(sessions, positions))

    def _look(self) -> None:
        """See which session's messages are given: the first that is not done."""
        self._head = next(iter(self._sessions), b"")
        self._current = self._sessions.get(self._head) or Numbers(1)
        self._name = self._head.decode("latin-1").strip()

    def _report(self, gap: Missing, reason: str, found: list[Message]) -> None:
        count = gap.end - gap.first
        self._lost += count
        first, last, extra = _text(gap.first), _text(gap.end - 1), (self._name, None)
        found.append(
            lost(reason, origin=self._origin, count=count, first=first, last=last, extra=extra)
        )

    # -- what is missing --------------------------------------------------------------------------

    def _mend(self, found: list[Message]) -> None:
        """Ask for what is missing, and report what has been for too long."""
        now, limit = self._now, self.options.recover_within.total_seconds()
        # A single packet of another session, from whomever, ends none that goes on.
        while len(self._sessions) > 1 and not self._current.incomplete:
            waits = self._head not in self._ended and now - self._heard <= limit
            if waits and not self._holds_too_much:
                break
            self._go_on(found)
        numbers, marks = self._current, self._marks
        if not marks or marks[-1][0] < numbers.known:
            marks.append((numbers.known, now))
        full = self._holds_too_much
        while True:
            while marks and marks[0][0] <= numbers.next:
                marks.popleft()
            if not numbers.incomplete:
                return
            if not full and now - marks[0][1] <= limit:
                break
            first = numbers.next
            gap, ready = numbers.give_up()
            self._report(gap, _FULL if full else _BEGINNING if first == 1 else _GAP, found)
            self._give(gap.end, ready)
            full = False
        due = now - self._asked >= self.options.ask_every.total_seconds()
        if self._servers and (due or self._answered):
            self._asked, self._answered = now, False
            self._ask()

    @property
    def _holds_too_much(self) -> bool:
        return sum(each.held for each in self._sessions.values()) > self.options.hold

    def _ask(self) -> None:
        """Ask for what is missing, but for what was asked for a moment ago.

        A server answers with as many messages as go into a packet, of which it is asked for twice as
        many as came so far; what is behind them is missing still, and asked for as soon as they are
        there. One that lacks a message may not answer for all: fewer are asked for each time.
        """
        options, now, before = self.options, self._now, self._requests
        usual = min(options.ask_most, 2 * self._largest or options.ask_most)
        made: dict[int, _Request] = {}
        self._requests = made
        for gap in self._current.missing():
            first = gap.first
            while first < gap.end:
                if len(made) == options.ask_at_once:
                    return
                last = before.get(first)
                if last is None or now - last.at >= options.ask_every.total_seconds():
                    most = usual if last is None else max(1, last.messages // 2)
                    last = _Request(now, min(most, gap.end - first))
                    self._send(first, last)
                made[first] = last
                first += last.messages

    def _send(self, first: int, asked: _Request) -> None:
        turn, self._turn = self._turn % len(self._servers), self._turn + 1
        host, port = self._servers[turn]
        with suppress(OSError):  # it is asked again
            self._asking[turn].sendto(request(self._head, first, asked.messages), (str(host), port))

    def acknowledge(self, messages: Sequence[Message]) -> None:
        pass  # nobody waits for it

    def pause(self) -> None:
        # What the kernel drops meanwhile is asked for later.
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        # Nothing could come, nor be asked for, meanwhile.
        self._heard = now = time.monotonic()
        self._marks = deque((known, now) for known, _ in self._marks)

    def close(self) -> None:
        for made in (*self._feeds, *self._asking):
            made.close()
        self._feeds, self._asking = [], []

    def cursor(self) -> str | None:
        if not self._sessions:
            return None
        over = {each.decode("latin-1"): number for each, number in self._over.items()}
        told = {"session": self._head.decode("latin-1"), "next": self._current.next, "over": over}
        return json.dumps(told | {"ended": self._head in self._ended})

    def waiting(self) -> int | None:
        return 0  # nothing waits anywhere

    def facts(self) -> dict[str, Any]:
        dropped = sum(drops_of(made) for made in self._feeds)
        held = {"dropped": dropped, "held": sum(each.held for each in self._sessions.values())}
        return {"server": self._origin, "session": self._name, "lost": self._lost, **held}


def _text(number: int) -> str:
    return f"{number:0{_WIDTH}d}"
