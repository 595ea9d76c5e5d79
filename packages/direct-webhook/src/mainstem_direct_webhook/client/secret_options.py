"""Options whose values are secrets: the URL, headers, signing secrets; complaints do not show them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import SplitResult, unquote, urlsplit

from mainstem import Hidden, Secret

from mainstem_direct_webhook.fields import TOKEN, VALUE
from mainstem_direct_webhook.standard import PublicKey, read_secret

PORTS = {"http": 80, "https": 443}

#: Headers that the sink makes itself, or that are between two ends of a connection.
OWN_HEADERS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade"),
        *("proxy-connection", "proxy-authorization", "te", "trailer", "expect", "http2-settings"),
        *("webhook-id", "webhook-timestamp", "webhook-signature", "idempotency-key"),
    }
)


def allowed(name: str) -> str:
    """Return a header's name in lower case.

    Raises:
        ValueError: it is none, or one that the sink makes itself.
    """
    lower = name.lower()
    if not TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a header")
    if lower in OWN_HEADERS:
        raise ValueError(f"the header {lower} is made by the sink, or belongs to a connection")
    return lower


def _check_text(value: Secret) -> Secret:
    if not VALUE.fullmatch(value.get_secret_value()) or not value.get_secret_value():
        raise ValueError("expected text that a header can hold, without line breaks")
    return value


def _check_url(value: Secret) -> Secret:
    split(value)
    return Secret(value.get_secret_value().strip())


def _check_signing(value: tuple[Secret, ...]) -> tuple[Secret, ...]:
    if not value:
        raise ValueError("expected at least one secret")
    for each in value:
        key = read_secret(each.get_secret_value())
        if type(key) is PublicKey:
            raise ValueError("whpk_ is for the receiver; to sign it takes whsec_ or whsk_")
    return value


def _check_headers(value: dict[str, Secret]) -> dict[str, Secret]:
    checked: dict[str, Secret] = {}
    for name, held in value.items():
        lower = allowed(name)
        if lower in checked:
            raise ValueError(f"the header {lower} is there twice")
        if not VALUE.fullmatch(held.get_secret_value()):
            raise ValueError(f"the value of {lower} is no text that a header can hold")
        checked[lower] = held
    return checked


#: Text that goes into a header, and is never printed.
SecretText = Annotated[Secret, Hidden(_check_text)]
#: The URL of an endpoint; it is never printed.
EndpointURL = Annotated[Secret, Hidden(_check_url)]
#: One secret of Standard Webhooks, or several.
SigningSecrets = Annotated[tuple[Secret, ...], Hidden(_check_signing)]
#: Headers, by lower-case name.
SecretHeaders = Annotated[dict[str, Secret], Hidden(_check_headers)]


def split(url: Secret) -> SplitResult:
    """Return the parts of an endpoint's URL.

    Raises:
        ValueError: it is none; the text has nothing of it.
    """
    text = url.get_secret_value().strip()
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("no valid URL (is a character of it not encoded?)") from None
    if parts.scheme not in PORTS:
        raise ValueError("expected a URL that begins with https:// or http://")
    if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        raise ValueError(
            "the URL has a character that must be encoded; a host's name in other letters is written "
            "xn--..."
        )
    if not parts.hostname or port == 0:
        raise ValueError("the URL has no host, or port 0")
    if any(not 0 < len(label) < 64 for label in parts.hostname.removesuffix(".").split(".")):
        raise ValueError(
            "the URL's host is no name: what is between two dots is empty, or over 63 characters"
        )
    if parts.fragment:
        raise ValueError("the URL has something after `#`, which is never sent")
    # What the one reads as a host may be another's password, which errors would then show.
    if parts.netloc.count("@") > 1:
        raise ValueError("the URL has a second `@`: in a user's name or a password write %40")
    if parts.username is not None and not (parts.username and parts.password):
        raise ValueError("the URL has a user without a password; for a token write `auth`")
    return parts


def place(url: Secret) -> str:
    """Return where an endpoint is, `https://host:port`: paths hold tokens as often as queries do."""
    parts = split(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = parts.port
    return f"{parts.scheme}://{host}" + (f":{port}" if port and port != PORTS[parts.scheme] else "")


def userinfo(url: Secret) -> tuple[str, str] | None:
    """Return user and password, if the URL has them."""
    parts = split(url)
    if parts.username is None:
        return None
    return unquote(parts.username), unquote(parts.password or "")
