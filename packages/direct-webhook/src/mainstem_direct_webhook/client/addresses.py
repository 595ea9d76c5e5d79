"""Which addresses may be connected to: those of the public Internet, unless more is allowed.

Whoever may choose a URL must not be able to reach, through us, what only we can reach: services of this
machine and its network, or a cloud's metadata (server-side request forgery).
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

#: Networks whose addresses are not connected to, with what they are: those that IANA's registries of
#: special-purpose addresses (IPv4 and IPv6, as of 2025-10) do not call globally reachable, multicast,
#: and where clouds answer their own machines. Python's tables, those of its release, are not asked.
_IPV4 = {
    "0.0.0.0/8": "an unspecified",
    "10.0.0.0/8": "a private",
    "100.64.0.0/10": "a shared",
    "127.0.0.0/8": "a loopback",
    "168.63.129.16/32": "a cloud's own",  # Azure's
    "169.254.0.0/16": "a link-local",  # 169.254.169.254: metadata of most clouds
    "172.16.0.0/12": "a private",
    "192.0.0.0/24": "a reserved",  # 192.0.0.192: Oracle's metadata
    "192.0.2.0/24": "a reserved",
    "192.88.99.0/24": "a reserved",
    "192.168.0.0/16": "a private",
    "198.18.0.0/15": "a private",
    "198.51.100.0/24": "a reserved",
    "203.0.113.0/24": "a reserved",
    "224.0.0.0/4": "a multicast",
    "240.0.0.0/4": "a reserved",
}
_IPV6 = {
    "::/128": "an unspecified",
    "::1/128": "a loopback",
    "fc00::/7": "a private",  # fd00:ec2::254 and fd20:ce::254: metadata of clouds
    "fe80::/10": "a link-local",
    "fec0::/10": "a private",
    "ff00::/8": "a multicast",
    "64:ff9b:1::/48": "a private",
    "2001::/23": "a reserved",
    "2001:db8::/32": "a reserved",
    "3fff::/20": "a reserved",
}
#: Where addresses of the public Internet are given out (RFC 4291, section 2.4; RFC 3513).
_GLOBAL = IPv6Network("2000::/3")
#: Where an IPv4 address stands in the last 32 bits: NAT64 (RFC 6052), and compatible ones (RFC 4291).
_LAST_32 = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
_REFUSED_4 = {IPv4Network(network): kind for network, kind in _IPV4.items()}
_REFUSED_6 = {IPv6Network(network): kind for network, kind in _IPV6.items()}


class AddressRefusedError(OSError):
    """A name has no address that may be connected to."""


def refusal(address: IPv4Address | IPv6Address) -> str | None:
    """Return why an address is not connected to; None if it is public.

    What a mapped (`::ffff:0:0/96`), 6to4 (`2002::/16`) or NAT64 address stands for is looked at too.
    """
    if isinstance(address, IPv4Address):
        return _kind(kind for network, kind in _REFUSED_4.items() if address in network)
    if found := _kind(kind for network, kind in _REFUSED_6.items() if address in network):
        return found
    inner = address.ipv4_mapped or address.sixtofour
    if any(address in network for network in _LAST_32):
        inner = IPv4Address(int(address) & 0xFFFF_FFFF)
    if inner is not None:
        return refusal(inner)
    return None if address in _GLOBAL else "is not a public address"


def _kind(found: Iterable[str]) -> str | None:
    kind = next(iter(found), None)
    return f"is {kind} address" if kind else None


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
