"""Files with schemas, as `mainstem schemas pull` writes them and documents name them."""

from __future__ import annotations

from pathlib import Path

from mainstem import OptionError

#: How large one may be.
_MOST_BYTES = 4 * 2**20


def schema_text(path: Path, option: str) -> str:
    """Return the text of a file with a schema.

    Args:
        option: the option that names it.

    Raises:
        OptionError: it can't be read; says why.
    """
    try:
        if not path.is_file():
            raise OptionError(f"{path} is no file", option=option)
        if path.stat().st_size > _MOST_BYTES:
            raise OptionError(f"{path} is larger than {_MOST_BYTES:,} bytes", option=option)
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise OptionError(f"can't read {path}: {error.strerror}", option=option) from None
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not UTF-8", option=option) from None
