"""A broker that asks who comes, over TLS."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

KEY = b"a key of thirty-two bytes or more, which nobody knows"
_PACKAGE = "org.apache.pulsar"


def token(subject):
    """Return a JWT for somebody."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=")
        for each in ({"alg": "HS256"}, {"sub": subject})
    ]
    mark = hmac.new(KEY, b".".join(parts), hashlib.sha256).digest()
    return b".".join([*parts, base64.urlsafe_b64encode(mark).rstrip(b"=")]).decode()


def settings(certificates, port, web):
    """Return the settings of such a broker, with a port for clients and one for its administration."""
    secret = base64.b64encode(KEY).decode()
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": f"{_PACKAGE}.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": f"data:;base64,{secret}",
        "superUserRoles": "root",
        "brokerClientAuthenticationPlugin": f"{_PACKAGE}.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{token('root')}",
        "brokerServicePortTls": port,
        "webServicePortTls": web,
        "tlsCertificateFilePath": certificates / "server.pem",
        "tlsKeyFilePath": certificates / "server.key",
        "tlsTrustCertsFilePath": certificates / "ca.pem",
    }
