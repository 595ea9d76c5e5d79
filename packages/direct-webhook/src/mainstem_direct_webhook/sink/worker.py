"""Delivers requests one after another: signs, sends and retries until each is accepted or refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from mainstem import PermanentError, RefusedRowError, TransientError, failpoint

from mainstem_direct_webhook import standard
from mainstem_direct_webhook.client.answers import Fate, fate, pause, retry_after
from mainstem_direct_webhook.client.connection import Client, Reply, told
from mainstem_direct_webhook.client.secret_options import place
from mainstem_direct_webhook.sink.options import WebhookSinkOptions
from mainstem_direct_webhook.sink.requests import Message, Parcel

#: How often a request is tried that is answered as if there were no endpoint.
ENDPOINT_TRIES = 3


class StoppedError(Exception):
    """The task ends, so nothing is tried any more."""


class Gate:
    """Holds back all requests of a task while the endpoint asks for that (429 and 503)."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._until = 0.0

    def hold(self, seconds: float) -> None:
        """Let no request go for so long."""
        self._until = max(self._until, time.monotonic() + seconds)

    def wait(self) -> None:
        """Wait until requests may go.

        Raises:
            StoppedError: the task ends.
        """
        while not self.stopped.is_set() and (left := self._until - time.monotonic()) > 0:
            self.stopped.wait(left)
        if self.stopped.is_set():
            raise StoppedError

    def sleep(self, seconds: float) -> None:
        """Wait for so long.

        Raises:
            StoppedError: the task ends.
        """
        if self.stopped.wait(seconds):
            raise StoppedError


class Lane:
    """One connection, and what is to be done on it.

    Args:
        options: of the sink.
        client: the connection.
        gate: of all lanes of the task.
        keys: that sign.
        shown: makes of what the endpoint says what may be shown.
        refuse: called with a message that is refused for good, and the reason.
        pack: makes a request of some messages.
        last: by `time.monotonic`, when the batch fails.
    """

    def __init__(
        self,
        options: WebhookSinkOptions,
        client: Client,
        gate: Gate,
        keys: Sequence[standard.Key],
        shown: Callable[[str], str],
        refuse: Callable[[Message, str], None],
        pack: Callable[[Sequence[Message]], Parcel],
        last: float,
    ) -> None:
        self._options = options
        self._timeout = options.answer_timeout.total_seconds()
        self._give_up = options.give_up.total_seconds()
        self._longest = options.longest_wait.total_seconds()
        self._client = client
        self._gate = gate
        self._keys = keys
        self._shown = shown
        self._refuse = refuse
        self._pack = pack
        self._last = last
        self.abort = client.abort
        self.close = client.close

    def deliver(self, parcel: Parcel) -> None:
        """Return when each message of a request was taken, or refused for good.

        Raises:
            PermanentError: it was not taken before `give_up` or the batch's end, the endpoint is not
                there, or it can't be reached safely.
            StoppedError: the task ends.
        """
        why = self._settled(parcel)
        if why is None:
            return
        if len(parcel.messages) > 1:
            # One of them may be to blame: alone, only that is refused.
            for message in parcel.messages:
                self.deliver(self._pack([message]))
        else:
            self._refuse(parcel.messages[0], why)

    def _settled(self, parcel: Parcel) -> str | None:
        """Send a request until it is taken (None) or refused (why)."""
        self._gate.wait()
        began = time.monotonic()
        until = min(began + self._give_up, self._last)
        tries = astray = 0
        trouble = ""
        while True:
            self._gate.wait()
            tries += 1
            asked = None
            failpoint("webhook.before-request")
            try:
                reply = self._send(parcel, until)
            except PermanentError as error:
                raise PermanentError(f"{self._where}: {error}") from None
            except RefusedRowError as error:
                return f"no request can carry it: {self._shown(str(error))}"
            except TransientError as error:
                # A try that was cut short at the very end says less than those before it.
                if not trouble or time.monotonic() < until:
                    trouble = self._shown(str(error))
            else:
                failpoint("webhook.after-response")
                meant = fate(reply.status, self._options.reject)
                if meant is Fate.DONE:
                    return None
                if meant is Fate.REFUSED:
                    return self._told(reply)
                trouble = self._told(reply)
                asked = retry_after(reply.retry_after)
                if meant is Fate.ASTRAY:
                    astray += 1
                    self._check_astray(reply, astray)
            wait = pause(tries, asked, self._longest)
            if asked is not None:
                self._gate.hold(wait)
            if time.monotonic() + wait >= until:
                raise PermanentError(
                    f"{self._where}: a request was not taken, tried {tries} times in "
                    f"{time.monotonic() - began:.0f} s ({self._limit(until)}): {trouble}"
                )
            self._gate.sleep(wait)

    def _send(self, parcel: Parcel, until: float) -> Reply:
        """Send a request once, with the time and the signatures of this try."""
        now = int(time.time())
        headers = [
            *parcel.headers,
            (standard.ID, parcel.name),
            ("idempotency-key", parcel.name),
            (standard.TIMESTAMP, str(now)),
        ]
        if self._keys:
            made = (standard.sign(key, parcel.name, now, parcel.body) for key in self._keys)
            headers.append((standard.SIGNATURE, " ".join(made)))
        deadline = min(time.monotonic() + self._timeout, until)
        return self._client.send(headers, parcel.body, deadline)

    def _check_astray(self, reply: Reply, times: int) -> None:
        """Raise `PermanentError` if the endpoint has said often enough that it is not one."""
        if times < ENDPOINT_TRIES:
            return
        if reply.status < 400:
            where = f" to {reply.elsewhere}" if reply.elsewhere else ""
            raise PermanentError(
                f"{self._where}: answers {reply.status}, a redirect{where}, which is not followed: "
                "`url` must say where requests go"
            )
        raise PermanentError(
            f"{self._where}: answers {self._told(reply)}: are `url`, `method`, `auth` and `headers` "
            f"right? If it is about single messages, write `reject: [{reply.status}]`"
        )

    @property
    def _where(self) -> str:
        return place(self._options.url)

    def _limit(self, until: float) -> str:
        return "batch_timeout" if until == self._last else "give_up"

    def _told(self, reply: Reply) -> str:
        return told(reply, self._shown)
