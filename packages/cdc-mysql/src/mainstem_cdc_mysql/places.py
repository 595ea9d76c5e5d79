"""Where a checkpoint is, and where to begin: what the server and our place say of each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from mainstem import PermanentError
from mainstem_cdc import START_OVER, GapError

from mainstem_cdc_mysql.gtids import GtidPosition, Gtids, GtidSet


@dataclass(frozen=True)
class Place:
    """Where a checkpoint is.

    Attributes:
        server: what tells the server from every other.
        epoch: how often it was another one.
        file: the file of its log,
        start: and where in it the transaction begins that comes next, or is taken in part.
        made: when the file was begun, in seconds since 1970; 0 where that is not known.
        gtids: the transactions that were taken whole, where the server numbers them.
        taken: by transactions that were taken in part, how many changes of each table were.
    """

    server: str
    epoch: int
    file: str
    start: int
    made: int = 0
    gtids: str | None = None
    taken: dict[str, dict[str, int]] = field(default_factory=dict)

    def encoded(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)

    @classmethod
    def decoded(cls, found: dict[str, Any]) -> Place:
        """Return what `encoded` returned."""
        return cls(**found)


@dataclass(frozen=True)
class Server:
    """What the server says of itself.

    Attributes:
        product: `mysql` or `mariadb`.
        id: what tells it from every other.
        file: of its log where that ends,
        end: and where that is.
        files: all that there are, with their lengths.
        gtids: the transactions in its log; None where it does not number them.
        purged: those whose log is gone.
        status: the statement that asks where the log ends.
    """

    product: str
    id: str
    file: str
    end: int
    files: dict[str, int]
    gtids: str | None
    purged: str = ""
    status: str = "SHOW MASTER STATUS"


@dataclass(frozen=True)
class Beginning:
    """From where the log is read.

    Attributes:
        file: the file of the log,
        start: and where in it, if `gtids` is None.
        made: when that file must have been begun; 0 for whenever.
        end: the position of the log's end now.
        status: the statement that asks where that is.
    """

    server: str
    mariadb: bool
    epoch: int
    file: str
    start: int
    made: int
    gtids: str | None
    taken: dict[str, dict[str, int]]
    end: list[int]
    status: str

    @property
    def position(self) -> list[int]:
        """The position behind which it is read; see `log.Position`."""
        count = sum(n for each in self.taken.values() for n in each.values())
        return [self.epoch, file_number(self.file), self.start, count]


def file_number(name: str) -> int:
    """Return the number of a file of the log."""
    return int(name.rpartition(".")[2] or 0)


def gtids_of(text: str, *, mariadb: bool) -> Gtids:
    """Return transactions as a server writes them.

    Raises:
        PermanentError: they have tags.
    """
    try:
        return GtidPosition(text) if mariadb else GtidSet(text)
    except ValueError:
        raise PermanentError(
            "the server's transactions have tags in their numbers, which are not known here"
        ) from None


def beginning(server: Server, place: Place | None, *, again: bool = False) -> Beginning:
    """Return where to begin.

    Args:
        place: where the checkpoint is; None for a new one.
        again: whether to begin at the end of the server's log, above the place, as changes are lost.

    Raises:
        GapError: the changes that are wanted are not to be had.
        PermanentError: nor will others be; says what to do.
    """
    mariadb = server.product == "mariadb"

    def made(epoch: int, **more: Any) -> Beginning:
        given: dict[str, Any] = {
            "file": server.file, "start": server.end, "made": 0, "gtids": server.gtids, "taken": {},
        }  # fmt: skip
        end = [epoch, file_number(server.file), server.end, 0]
        return Beginning(
            server.id, mariadb, epoch, end=end, status=server.status, **{**given, **more}
        )

    if place is None:
        return made(0)
    if again:
        return made(place.epoch + 1)
    same = server.id == place.server
    if place.gtids is None or server.gtids is None:
        if not same:
            raise PermanentError(
                f"the server is another one ({server.id}) than the checkpoint is of ({place.server}), "
                f"and does not number transactions (gtid_mode): {START_OVER}"
            )
        if place.file not in server.files:
            raise GapError(
                f"the server has no file {place.file} of its log any longer "
                "(binlog_expire_logs_seconds), and with it the changes since are gone"
            )
        if server.files[place.file] < place.start:
            raise PermanentError(
                f"the file {place.file} of the server's log ends before {place.start}, where this "
                f"checkpoint is: it was set back to an older state; {START_OVER}"
            )
        return made(
            place.epoch, file=place.file, start=place.start, made=place.made, gtids=None,
            taken=place.taken,
        )  # fmt: skip
    ours = gtids_of(place.gtids, mariadb=mariadb)
    if not ours.within(server.gtids):
        what = "was set back to an older state" if same else "lacks transactions that were taken"
        raise PermanentError(
            f"the server {what}: this checkpoint has {place.gtids or 'none'}, the server "
            f"{server.gtids or 'none'}; {START_OVER}"
        )
    if not mariadb and not gtids_of(server.purged, mariadb=False).within(place.gtids):
        raise GapError(
            "the server has let go of changes that were not taken yet (binlog_expire_logs_seconds)"
        )
    if same and [file_number(server.file), server.end] < [file_number(place.file), place.start]:
        raise GapError(
            f"the server's log ends at {server.end} of {server.file}, before {place.start} of "
            f"{place.file}, where this checkpoint is: somebody has reset the log (RESET MASTER)"
        )
    where: dict[str, Any] = {"file": server.file, "start": 0}
    if same:
        where = {"file": place.file, "start": place.start, "made": place.made}
    return made(place.epoch + (not same), **where, gtids=place.gtids, taken=place.taken)
