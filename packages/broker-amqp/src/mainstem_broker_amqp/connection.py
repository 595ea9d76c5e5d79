"""What pika needs to reach a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from mainstem import Secret

from mainstem_broker_amqp.options import PORTS, BrokerTLSOptions, ConnectionOptions, split

if TYPE_CHECKING:
    import pika


def places(options: ConnectionOptions) -> list[str]:
    """Return the brokers as `host:port/vhost`, without user and password."""
    return [place(url) for url in options.url]


def place(url: Secret) -> str:
    """Return a broker as `host:port/vhost`, without user and password."""
    parts = split(url)
    vhost = unquote(parts.path[1:]) or "/"
    return (
        f"{parts.hostname}:{parts.port or PORTS[parts.scheme]}{'' if vhost == '/' else '/'}{vhost}"
    )


def parameters(options: ConnectionOptions, name: str) -> list[pika.ConnectionParameters]:
    """Return what pika needs to connect to each URL, in the order in which they are tried.

    Args:
        options: the component's.
        name: the connection's name for the broker's management, unless `connection_name` gives one.

    Raises:
        OSError: a file of `tls` can't be read, or holds no certificate or key.
    """
    import pika

    made = []
    context = None
    for url in options.url:
        parts = split(url)
        secured = None
        if parts.scheme == "amqps":
            context = context or (options.tls or BrokerTLSOptions()).context()
            named = options.tls.server_name if options.tls else None
            secured = pika.SSLOptions(context, named or parts.hostname)
        user = unquote(parts.username or "guest")
        password = unquote(parts.password or ("" if parts.username else "guest"))
        made.append(
            pika.ConnectionParameters(
                host=parts.hostname or "",  # never empty: `_split` has seen to that
                port=parts.port or PORTS[parts.scheme],
                virtual_host=unquote(parts.path[1:]) or "/",
                credentials=pika.PlainCredentials(user, password),
                heartbeat=int(options.heartbeat.total_seconds()),
                # Both: pika counts the second from the start of name resolution.
                socket_timeout=options.connect_timeout.total_seconds(),
                stack_timeout=options.connect_timeout.total_seconds(),
                blocked_connection_timeout=options.blocked_timeout.total_seconds(),
                connection_attempts=1,
                client_properties={"connection_name": options.connection_name or name},
                ssl_options=secured,
            )
        )
    return made
