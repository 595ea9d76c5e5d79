"""Character sets: texts of the log as UTF-8, by the server's own tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainstem import PermanentError

from mainstem_cdc_mysql.connection import Connection

Decoder = Callable[[bytes], bytes]

#: The number of bytes as a collation.
BINARY = 63
#: Those that are UTF-8 as they are, and Python's names of others whose characters have several bytes. Of
#: those that are left out Python's tables are other ones than the server's.
_AS_IT_IS = ("utf8", "utf8mb3", "utf8mb4", "ascii", "binary")
_CODECS: Mapping[str, str] = {
    "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be",
    "cp932": "cp932", "euckr": "cp949", "gbk": "gbk", "gb2312": "gb2312",
}  # fmt: skip
#: What no UTF-8 begins with: a text that has no meaning in its character set is refused by it.
_WRONG = b"\xff"


class Charsets:
    """The character sets of a server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        found = connection.texts("SHOW COLLATION")
        self._names = {int(number): charset for _, charset, number, *_ in found if number}
        if len(self._names) < len(found):  # MariaDB's, which are of many character sets
            self._names |= {
                int(number): charset
                for charset, number in connection.texts(
                    "SELECT CHARACTER_SET_NAME, ID FROM "
                    "information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
                )
                if number
            }
        self._single = {
            name
            for name, _, _, longest, *_ in connection.texts("SHOW CHARACTER SET")
            if longest == "1"
        }
        self._made: dict[str, Decoder] = {}

    def decoder(self, collation: int) -> Decoder:
        """Return what makes UTF-8 of texts of a collation.

        Raises:
            PermanentError: its character set is not known here.
        """
        name = self._names.get(collation, "")
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Decoder:
        if name in _AS_IT_IS:
            return bytes
        codec = _CODECS.get(name)
        if codec is not None:
            return lambda value: _decoded(value, codec)
        if name not in self._single:
            raise PermanentError(
                f"a column has the character set {name or 'without a name'}, which is not known here: "
                "convert it, to utf8mb4 for example"
            )
        # All that it has is asked for once.
        every = bytes(range(256)).hex()
        ((text,),) = self._connection.query(f"SELECT CONVERT(_{name} X'{every}' USING utf8mb4)")
        table = dict(enumerate((text or b"").decode()))
        return lambda value: value.decode("latin-1").translate(table).encode()


def _decoded(value: bytes, codec: str) -> bytes:
    try:
        return value.decode(codec).encode()
    except UnicodeDecodeError:
        return _WRONG + value
