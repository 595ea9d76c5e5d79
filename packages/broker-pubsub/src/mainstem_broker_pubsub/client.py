"""A channel to Pub/Sub, and its calls; the only module that imports Google's library."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from mainstem import ExternalError, LocalPath, PermanentError, TransientError

from mainstem_broker_pubsub.options import ConnectionOptions, PubSubOptions, PubSubSourceOptions

#: What is said of many acknowledgements at once comes in headers.
_HEADERS = 4 * 2**20
#: How often a silent line is tried, in milliseconds: as Google's own library does. Emulators allow less.
_KEEPALIVE = 30_000
_SCOPES = (
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/pubsub",
)
#: What OAuth says of credentials that are wrong for good.
_WRONG = ("invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope")
#: Calls, by name: the service, what is sent and what comes back.
_CALLS: Mapping[str, tuple[str, str, str]] = {
    "GetTopic": ("Publisher", "GetTopicRequest", "Topic"),
    "Publish": ("Publisher", "PublishRequest", "PublishResponse"),
    "GetSubscription": ("Subscriber", "GetSubscriptionRequest", "Subscription"),
    "Acknowledge": ("Subscriber", "AcknowledgeRequest", "Empty"),
    "ModifyAckDeadline": ("Subscriber", "ModifyAckDeadlineRequest", "Empty"),
    "StreamingPull": ("Subscriber", "StreamingPullRequest", "StreamingPullResponse"),
}
#: How a reason begins that passes.
TRANSIENT = "TRANSIENT_FAILURE_"
_LASTING = (
    "NOT_FOUND",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "INVALID_ARGUMENT",
    "UNIMPLEMENTED",
)
#: How reasons begin that are given for single acknowledgements.
_OF_IDS = ("PERMANENT_FAILURE_", TRANSIENT)
#: What gRPC says of a certificate of somebody else; its code is that of a lost line.
_UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "not in peer certificate")


class Client:
    """One channel, which threads may share.

    Args:
        options: where it leads.

    Raises:
        PermanentError: there are no credentials, or they can't be read.
    """

    def __init__(self, options: PubSubSourceOptions | PubSubOptions) -> None:
        self._options = options
        self._seconds = options.answer_timeout.total_seconds()
        self._channel = _channel(options)
        kind = "subscription" if isinstance(options, PubSubSourceOptions) else "topic"
        told = f"{kind}={quote(options.path, safe='')}"
        self._metadata = (("x-goog-request-params", told),)
        self._calls: dict[str, Any] = {}

    def call(self, name: str, **fields: Any) -> Any:
        """Ask, and return the answer.

        Raises:
            ExternalError: it was refused, or did not come.
        """
        try:
            return self.ask(name, **fields)
        except Exception as error:
            raise self.failure(error) from None

    def ask(self, name: str, *, seconds: float | None = None, **fields: Any) -> Any:
        """Ask, and return the answer; raises what the library does: see `status` and `not_taken`.

        Args:
            name: of the call.
            seconds: how long the answer may take; `answer_timeout` when left out.
            fields: of what is sent.
        """
        sent = message(_CALLS[name][1], **fields)
        return self._call(name)(sent, timeout=seconds or self._seconds, metadata=self._metadata)

    def look(self, name: str, **fields: Any) -> Any:
        """Ask what something is, and return it; None if who may use it may not look at it.

        Raises:
            ExternalError: it is not there, or can't be reached within `connect_timeout`.
        """
        try:
            return self.ask(name, seconds=self._options.connect_timeout.total_seconds(), **fields)
        except Exception as error:
            if status(error)[0] == "PERMISSION_DENIED":
                return None
            raise self.failure(error) from None

    def begin(self, name: str, request: Any) -> Any:
        """Ask, and return the answer to come (a future of gRPC's)."""
        return self._call(name).future(request, timeout=self._seconds, metadata=self._metadata)

    def stream(self, name: str, requests: Iterable[Any]) -> Any:
        """Begin a stream both ways; what comes back is iterated, and has `cancel`."""
        return self._call(name)(iter(requests), metadata=self._metadata)

    def _call(self, name: str) -> Any:
        if name not in self._calls:
            service, sent, back = _CALLS[name]
            make = self._channel.stream_stream if "Stream" in sent else self._channel.unary_unary
            self._calls[name] = make(
                f"/google.pubsub.v1.{service}/{name}",
                request_serializer=_type(sent).SerializeToString,
                response_deserializer=_type(back).FromString,
            )
        return self._calls[name]

    def failure(self, error: Exception) -> ExternalError:
        """Return what an error of a call means, in words without secrets."""
        if isinstance(error, ExternalError):
            return error
        name, text = status(error)
        told = f"{self._options.place()}: {name.lower().replace('_', ' ')}: {text}"
        lasts = name in _LASTING or any(each in text for each in _UNTRUSTED)
        return PermanentError(told) if lasts else TransientError(told)

    def close(self) -> None:
        """End the connection."""
        self._channel.close()


def message(kind: str, **fields: Any) -> Any:
    """Return a message of the protocol, as the library's own class."""
    return _type(kind)(**fields)


def status(error: Exception) -> tuple[str, str]:
    """Return the name of an error's code, and what it says in one line."""
    import grpc

    if isinstance(error, grpc.RpcError) and callable(getattr(error, "code", None)):
        call: Any = error
        return str(call.code().name), " ".join(str(call.details() or "").split())
    return type(error).__name__, " ".join(str(error).split())


def not_taken(error: Exception) -> Mapping[str, str]:
    """Return the ids of acknowledgements that an error is about, each with why.

    Only of a subscription with exactly-once delivery; empty for any other error. What is not among them
    has been taken.
    """
    from google.rpc import error_details_pb2
    from grpc_status import rpc_status

    try:
        held = rpc_status.from_call(error)
    except (AttributeError, ValueError):
        return {}
    found: dict[str, str] = {}
    for each in held.details if held is not None else ():
        told = error_details_pb2.ErrorInfo()
        if each.Unpack(told):
            found |= {name: why for name, why in told.metadata.items() if why.startswith(_OF_IDS)}
    return found


def _type(kind: str) -> Any:
    if kind == "Empty":
        from google.protobuf.empty_pb2 import Empty

        return Empty
    from google.pubsub_v1 import types

    return getattr(types, kind).pb()


def _channel(options: ConnectionOptions) -> Any:
    import grpc

    settings = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", _HEADERS),
        ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection
    ]
    if options.emulator is not None:
        return grpc.insecure_channel(options.emulator, options=settings)
    from google.api_core import grpc_helpers

    host = options.endpoint if ":" in options.endpoint else f"{options.endpoint}:443"
    settings += [
        ("grpc.keepalive_time_ms", _KEEPALIVE),
        ("grpc.keepalive_timeout_ms", int(options.answer_timeout.total_seconds() * 1000)),
    ]
    return grpc_helpers.create_channel(host, credentials=_login(options), options=settings)


#: By file, credentials that a process has; tasks of Spark, one after the other, use them again.
_found: dict[LocalPath | None, Any] = {}


def _login(options: ConnectionOptions) -> Any:
    """Return credentials that were tried: later on, what is wrong with them looks like a lost line."""
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    found = _found.get(options.credentials)
    if found is None:
        found = _credentials(options)
    if not found.valid:
        try:
            found.refresh(partial(Request(), timeout=options.connect_timeout.total_seconds()))
        except GoogleAuthError as error:
            told = " ".join(str(error.args[0] if error.args else type(error).__name__).split())
            told = f"{options.server()}: no token for the credentials: {told}"
            raise (PermanentError if _lasts(error, found) else TransientError)(told) from None
    _found[options.credentials] = found
    return found


def _credentials(options: ConnectionOptions) -> Any:
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        if options.credentials is None:
            return google.auth.default(default_scopes=_SCOPES)[0]
        with warnings.catch_warnings():
            # Files of every kind: the document says which, and its author is trusted.
            warnings.simplefilter("ignore", DeprecationWarning)
            load: Any = google.auth.load_credentials_from_file
            return load(str(options.credentials), default_scopes=_SCOPES)[0]
    except (GoogleAuthError, OSError, ValueError) as error:
        where = options.credentials or "what Google's libraries find"
        raise PermanentError(
            f"{options.server()}: no credentials in {where} ({type(error).__name__})"
        ) from None


def _lasts(error: Exception, credentials: Any) -> bool:
    """Whether a login was refused for good, and not because who gives tokens can't be reached."""
    from google.auth.exceptions import RefreshError
    from google.oauth2.service_account import Credentials

    own = isinstance(credentials, Credentials) and isinstance(error, RefreshError)
    if own and not error.retryable:  # type: ignore[attr-defined]
        return True
    return any(each in str(error) for each in _WRONG)
