"""Sockets of datagrams, for receivers: multicast groups, buffers, and what the kernel dropped."""

from __future__ import annotations

import errno
import re
import socket
import struct
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from mainstem import Options, PermanentError, Size, TransientError, option
from pydantic import field_validator, model_validator

#: Linux's numbers, of which Python's module lacks some.
TIMESTAMPNS, RXQ_OVFL = 35, 40
_RCVBUFFORCE = 33
_ADD_SOURCE_MEMBERSHIP = 39
_MULTICAST_ALL, _MULTICAST_ALL_6 = (socket.IPPROTO_IP, 49), (socket.IPPROTO_IPV6, 29)
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):(\d{1,5})", re.ASCII)

#: Before the path of a socket of this machine.
UNIX = "unix:"
Address = IPv4Address | IPv6Address


class DatagramOptions(Options):
    """Options that say what datagrams are taken."""

    listen: str = option(
        description="Address and port that datagrams are sent to; `0.0.0.0`, or `[::]`, is all addresses "
        "of this machine. Or `unix:/path`, a socket of this machine.",
        example="0.0.0.0:8125",
    )
    groups: list[str] = option(
        list, description="Multicast groups that are joined.", example=["239.1.2.3"]
    )
    sources: list[str] = option(
        list,
        description="The senders from which datagrams of the groups are taken (source-specific "
        "multicast, IPv4); from any when left out.",
        example=["10.0.0.7"],
    )
    interface: str | None = option(
        None,
        description="The interface on which groups are joined: its address (IPv4) or its name; the "
        "system's choice when left out.",
        example="10.0.0.1",
    )
    receive_buffer: Size | None = option(
        None,
        gt=0,
        description="The kernel's buffer for what was not read yet; the run ends where it gives less. "
        "The system's own when left out, which is small.",
        example="8 MiB",
    )

    @field_validator("listen")
    @classmethod
    def _is_address(cls, value: str) -> str:
        if not value.startswith(UNIX) or len(value) == len(UNIX):
            address_of(value)
        return value

    @field_validator("groups")
    @classmethod
    def _are_groups(cls, value: list[str]) -> list[str]:
        for each in value:
            if not ip_address(each).is_multicast:
                raise ValueError(f"{each} is no multicast group (224.0.0.0/4, ff00::/8)")
        return value

    @field_validator("sources")
    @classmethod
    def _are_senders(cls, value: list[str]) -> list[str]:
        for each in value:
            IPv4Address(each)
        return value

    @model_validator(mode="after")
    def _of_one_kind(self) -> DatagramOptions:
        if self.path is not None:
            if self.groups:
                raise ValueError("`groups` are joined at a port")
            return self
        host, _ = self.place()
        if any(ip_address(group).version != host.version for group in self.groups):
            raise ValueError("`groups` and `listen` are of one version of IP")
        if self.sources and (not self.groups or host.version == 6):
            raise ValueError("`sources` are the senders of `groups` of IPv4")
        if self.interface is not None and not self.groups:
            raise ValueError("`interface` is where `groups` are joined")
        if self.sources and self.interface and not self.interface[0].isdigit():
            raise ValueError("`interface` is an address where there are `sources`, not a name")
        return self

    def place(self) -> tuple[Address, int]:
        """Return the address and the port."""
        return address_of(self.listen)

    @property
    def path(self) -> Path | None:
        """The file of a socket of this machine."""
        return Path(self.listen.removeprefix(UNIX)) if self.listen.startswith(UNIX) else None


def address_of(text: str) -> tuple[Address, int]:
    """Return address and port of a text.

    Raises:
        ValueError: it has none.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 <= int(found[3]) <= 65_535:
        raise ValueError("expected address and port: 0.0.0.0:8125, [::]:8125")
    return ip_address(found[1] or found[2]), int(found[3])


def datagram_socket(options: DatagramOptions, *, shared: bool = False) -> socket.socket:
    """Return a socket that does not wait, bound and joined; it tells times and drops with what it gives.

    Args:
        shared: whether several processes have the port, each for a part of the senders.

    Raises:
        TransientError: the address can't be had now.
        PermanentError: it never will, or the buffer, or an interface.
    """
    if options.path is not None:
        family = socket.AF_UNIX
        address: str | tuple[str, int] = str(options.path)
    else:
        host, port = options.place()
        family = socket.AF_INET if host.version == 4 else socket.AF_INET6
        address = (str(host), port)
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.setblocking(False)
    try:
        if options.path is not None:
            remove_stale(options.path, socket.SOCK_DGRAM)
        _set(made, options, shared=shared)
        made.bind(address)
        for group in options.groups:
            _join(made, group, options)
    except OSError as error:
        made.close()
        # Whoever has the port may be about to end.
        kind = PermanentError if isinstance(error, PermissionError) else TransientError
        raise kind(f"can't listen at {options.listen}: {error.strerror}") from None
    except BaseException:
        made.close()
        raise
    return made


def remove_stale(path: Path, kind: socket.SocketKind) -> None:
    """Remove the socket that a killed process has left at a path.

    Raises:
        OSError: somebody listens there.
    """
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, kind) as asked:
        try:
            asked.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OSError(errno.EADDRINUSE, "somebody listens there")


def _set(made: socket.socket, options: DatagramOptions, *, shared: bool) -> None:
    made.setsockopt(socket.SOL_SOCKET, TIMESTAMPNS, 1)
    if made.family != socket.AF_UNIX:  # there who sends waits, and nothing is dropped
        made.setsockopt(socket.SOL_SOCKET, RXQ_OVFL, 1)
    if options.groups:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Else groups that other programs have joined come too.
        old = made.family == socket.AF_INET
        with suppress(OSError):
            made.setsockopt(*(_MULTICAST_ALL if old else _MULTICAST_ALL_6), 0)
    elif shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    wanted = options.receive_buffer
    if wanted is None:
        return
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
    if buffer_of(made) < wanted:
        with suppress(PermissionError):
            made.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, wanted)
    if buffer_of(made) < wanted:
        raise PermanentError(
            f"`receive_buffer` is {wanted:,} bytes, and the kernel gives {buffer_of(made):,}: "
            f"sysctl -w net.core.rmem_max={wanted}"
        )


def _join(made: socket.socket, group: str, options: DatagramOptions) -> None:
    where = options.interface
    if made.family == socket.AF_INET6:
        index = _index(where) if where else 0
        asked = socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", index)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, asked)
        return
    named = where is not None and not where[0].isdigit()
    address = socket.inet_aton(where) if where is not None and not named else bytes(4)
    if not options.sources:
        number = struct.pack("@i", _index(str(where))) if named else b""
        asked = socket.inet_aton(group) + address + number
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, asked)
    for sender in options.sources:
        asked = socket.inet_aton(group) + address + socket.inet_aton(sender)
        made.setsockopt(socket.IPPROTO_IP, _ADD_SOURCE_MEMBERSHIP, asked)


def buffer_of(made: socket.socket) -> int:
    """Return the size of a socket's buffer; Linux reports twice what was asked for."""
    return made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


def _index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        raise PermanentError(f"there is no interface {name!r}") from None


def drops_of(made: socket.socket) -> int:
    """Return the kernel's count of what it dropped, of a socket that gets nothing to tell it by."""
    if made.family == socket.AF_UNIX:
        return 0
    table = "/proc/net/udp" if made.family == socket.AF_INET else "/proc/net/udp6"
    inode = Path(f"/proc/self/fd/{made.fileno()}").readlink().name.strip("socket:[]")
    lines = (line.split() for line in Path(table).read_text().splitlines()[1:])
    return next((int(fields[12]) for fields in lines if fields[9] == inode), 0)
