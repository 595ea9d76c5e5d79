"""The vendor's library: clients of AWS's services, what they were asked, and what failures mean.

The one module that imports boto3, and that only when a client is made.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from mainstem_aws.options import AWSOptions

if TYPE_CHECKING:
    from boto3 import Session

_SESSION_NAME = "mainstem"
#: What no retry mends, by the code that AWS gives.
_PERMANENT = {
    "AccessDeniedException": "the credentials may not do this",
    "AccessDenied": "the credentials may not do this",
    "UnrecognizedClientException": "AWS does not know the access key",
    "InvalidClientTokenId": "AWS does not know the access key",
    "InvalidAccessKeyId": "AWS does not know the access key",
    "AuthFailure": "AWS refuses the credentials",
    "MissingAuthenticationTokenException": "the call carries no credentials",
    "IncompleteSignatureException": "the call's signature is not whole",
    "OptInRequired": "the account has not subscribed to the service",
    "ResourceNotFoundException": "it is not there",
    "ValidationException": "AWS refuses an argument",
    "InvalidArgumentException": "AWS refuses an argument",
    "KMSAccessDeniedException": "the credentials may not use the KMS key",
    "KMSDisabledException": "the KMS key is disabled",
    "KMSNotFoundException": "the KMS key is not there",
    "KMSOptInRequired": "the account has not subscribed to KMS",
}
#: What says that calls come too fast.
_THROTTLED = (
    "ProvisionedThroughputExceededException",
    "LimitExceededException",
    "ThrottlingException",
    "Throttling",
    "RequestLimitExceeded",
    "KMSThrottlingException",
)
#: What fails at AWS and passes.
_TRANSIENT = (
    "InternalFailure",
    "InternalFailureException",
    "InternalServerError",
    "ServiceUnavailable",
    "KMSInvalidStateException",
)
#: What is cut from a message of AWS: from here on it repeats the request, with its token.
_REQUEST = re.compile(r"\s*\n|\s*The Canonical String|\s*The canonical string", re.DOTALL)


class Calls:
    """Counts the requests that a client sends, retries too, by operation."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def watch(self, client: Any) -> None:
        """Count the requests of a client from now on."""
        client.meta.events.register("before-send", self._sent)

    def _sent(self, event_name: str, **_: Any) -> None:
        self.counts[event_name.rpartition(".")[2]] += 1


def connect(
    service: str,
    options: AWSOptions,
    calls: Calls | None = None,
    attempts: int | None = None,
    connections: int = 10,
    session: Session | None = None,
) -> Any:
    """Return a client; nothing is sent yet.

    Args:
        service: AWS's name of what is spoken to, such as `kinesis`.
        options: the component's.
        calls: counts what is sent.
        attempts: how often a call is tried; as the options say when left out.
        connections: how many threads call at once, at most.
        session: of `open_session`, for several clients; a new one when left out.

    Raises:
        botocore.exceptions.BotoCoreError: no such profile, no region, a file of AWS that can't be
            read. See `permanent` and `words`.
    """
    from botocore.config import Config

    config = Config(
        connect_timeout=options.connect_timeout.total_seconds(),
        read_timeout=options.answer_timeout.total_seconds(),
        retries={"mode": "standard", "total_max_attempts": attempts or options.attempts},
        max_pool_connections=connections,
        tcp_keepalive=True,
        user_agent_extra="mainstem",
    )
    session = open_session(options) if session is None else session
    made: Any = session.client
    client = made(service, endpoint_url=options.endpoint, config=config)
    if calls is not None:
        calls.watch(client)
    return client


def open_session(options: AWSOptions) -> Session:
    """Return a session: credentials and region, as the options or AWS's own places say.

    Raises:
        botocore.exceptions.BotoCoreError: as `connect`.
    """
    import boto3

    def shown(secret: Any) -> str | None:
        return None if secret is None else secret.get_secret_value()

    session = boto3.Session(
        aws_access_key_id=shown(options.access_key),
        aws_secret_access_key=shown(options.secret_key),
        aws_session_token=shown(options.session_token),
        region_name=options.where,
        profile_name=options.profile,
    )
    if options.role_arn is not None:
        _assume(session, options)
    return session


def _assume(session: Session, options: AWSOptions) -> None:
    """Let a session's credentials be those of a role, taken with what they were before."""
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
    from botocore.exceptions import NoCredentialsError

    inner: Any = session._session  # boto3 gives no other way to credentials that renew themselves
    before = inner.get_credentials()
    if before is None:
        raise NoCredentialsError
    given: dict[str, Any] = {"RoleSessionName": options.session_name or _SESSION_NAME}
    if options.external_id is not None:
        given["ExternalId"] = options.external_id.get_secret_value()
    fetcher = AssumeRoleCredentialFetcher(
        inner.create_client, before, options.role_arn or "", extra_args=given
    )
    inner._credentials = DeferredRefreshableCredentials(
        method="assume-role", refresh_using=fetcher.fetch_credentials
    )


# -- failures ---------------------------------------------------------------------------------


def code_of(error: BaseException) -> str:
    """Return the code that AWS gave, such as `ExpiredIteratorException`; empty if it gave none."""
    response: Any = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def throttled(error: BaseException) -> bool:
    """Whether calls came too fast, or too much was asked for."""
    return code_of(error) in _THROTTLED


def passing(error: BaseException) -> bool:
    """Whether a call failed at AWS, and the same call may soon succeed."""
    return code_of(error) in _TRANSIENT


def permanent(error: BaseException) -> str | None:
    """Return why no retry can mend a failure, in words without secrets; None if one may.

    Credentials that have run out are not permanent: whoever gave them may renew them. Nor is a wrong
    clock, which is what a signature that has expired, or is not valid yet, means.
    """
    from botocore import exceptions

    code = code_of(error)
    if code == "InvalidSignatureException":
        return None if _of_clock(error) else "AWS refuses the secret key: the signature is wrong"
    if code:
        return _PERMANENT.get(code)
    meant: tuple[tuple[type[BaseException], str], ...] = (
        (exceptions.NoCredentialsError, "no credentials were found (environment, ~/.aws, role)"),
        (exceptions.PartialCredentialsError, "the credentials are not whole"),
        (exceptions.ProfileNotFound, "there is no such profile in ~/.aws"),
        (exceptions.NoRegionError, "no region is known: give the option region, or AWS_REGION"),
        (exceptions.ConfigParseError, "a file of ~/.aws can't be read"),
        (exceptions.InvalidRegionError, "it is no region"),
        (exceptions.ParamValidationError, "a call can't be made so"),
    )
    for kind, text in meant:
        if isinstance(error, kind):
            return text
    # A connection that broke in the handshake is the same kind of error.
    if isinstance(error, exceptions.SSLError) and "certificate verify failed" in str(error).lower():
        return "the endpoint's certificate is not trusted"
    return None


def _of_clock(error: BaseException) -> bool:
    text = str(error)
    return "Signature expired" in text or "not yet current" in text


def words(error: BaseException, options: AWSOptions) -> str:
    """Return what is wrong in one line, without secrets, and what to do where that is known."""
    code = code_of(error)
    response: Any = getattr(error, "response", None) or {}
    message = str(response.get("Error", {}).get("Message") or "") if code else str(error)
    text = _REQUEST.split(message, maxsplit=1)[0].strip()
    text = f"{code}: {text}" if code and text else code or text or type(error).__name__
    if code in ("ExpiredTokenException", "ExpiredToken"):
        text += " (the credentials have run out; it goes on when they are renewed)"
    elif code == "RequestTimeTooSkewed" or (
        code == "InvalidSignatureException" and _of_clock(error)
    ):
        text += " (is this machine's clock right?)"
    for secret in options.secrets():
        text = text.replace(secret, "***") if secret else text
    return " ".join(text.split())
