"""Connections that are made, as their errors tell."""

from __future__ import annotations

import socket
import ssl

from mainstem import HostTLSOptions, PermanentError, TransientError

from mainstem_direct_socket.options import Place


def connected(place: Place, tls: HostTLSOptions | None, seconds: float) -> socket.socket:
    """Return a socket that is connected, with TLS where it is asked for.

    Raises:
        TransientError: nobody is there now.
        PermanentError: the other side's certificate is none of theirs, or a file can't be read.
    """
    try:
        context = tls.context() if tls is not None else None
    except OSError as error:
        raise PermanentError(str(error)) from None
    try:
        if place.path:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.settimeout(seconds)
            made.connect(place.path)
        else:
            made = socket.create_connection((place.host, place.port), seconds)
        if context is not None:
            made = context.wrap_socket(made, server_hostname=place.host or "localhost")
    except ssl.SSLCertVerificationError as error:
        raise PermanentError(f"the other side's certificate: {error.verify_message}") from None
    except OSError as error:
        raise TransientError(error.strerror or str(error)) from None
    return made
