"""Which addresses may be connected to: those of the public Internet, unless more is allowed.

Whoever may choose a URL must not be able to reach, through us, what only we can reach: services of this
machine and its network, or a cloud's metadata (server-side request forgery).
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

#: NAT64 (RFC 6052): an IPv4 address stands in the last 32 bits.
_NAT64 = IPv6Network("64:ff9b::/96")
#: Addresses of sites (RFC 3879) and of the network's own NAT64 (RFC 8215).
_LOCAL = (IPv6Network("fec0::/10"), IPv6Network("64:ff9b:1::/48"))


class AddressRefusedError(OSError):
    """A name has no address that may be connected to."""


def refusal(address: IPv4Address | IPv6Address) -> str | None:
    """Return why an address is not connected to; None if it is public.

    What a mapped (`::ffff:0:0/96`), 6to4 (`2002::/16`) or NAT64 address stands for is looked at too.
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return refusal(inner)
        if any(address in network for network in _LOCAL):
            return "is a private address"
    for kind in ("unspecified", "loopback", "link_local", "multicast", "private", "reserved"):
        if getattr(address, f"is_{kind}"):
            named = {"link_local": "a link-local", "unspecified": "an unspecified"}
            return f"is {named.get(kind, f'a {kind}')} address"
    return None if address.is_global else "is not a public address"


def resolve(host: str, port: int, *, allow_private: bool) -> list[str]:
    """Return the addresses of a host, as text, in the order in which they are to be tried.

    They are to be connected to as they are: a name that is resolved a second time can give others.

    Raises:
        socket.gaierror: the name has no addresses.
        AddressRefusedError: it has none that may be connected to.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if allow_private:
        return addresses
    refused = {address: refusal(ip_address(address.partition("%")[0])) for address in addresses}
    public = [address for address in addresses if refused[address] is None]
    if not public:
        told = ", ".join(f"{address} {why}" for address, why in refused.items())
        raise AddressRefusedError(f"{host}: {told}; `allow_private: true` lets it be")
    return public
