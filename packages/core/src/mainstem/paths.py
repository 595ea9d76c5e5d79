"""Local paths: as Spark takes them, and where processes of a user meet."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from mainstem.durable import private_folder


def for_spark(path: Path) -> str:
    """Return a local path as Hadoop reads one: it takes what is escaped in a URI for the name itself."""
    return f"file:{path.absolute()}"


def user_folder() -> Path:
    """Return the temporary folder of what this user's runs need while they last.

    It need not be there; see `made_user_folder`.
    """
    return Path(tempfile.gettempdir(), f"mainstem-{os.getuid()}")


def made_user_folder() -> Path | None:
    """Return that folder, made; None if it can't be, or others could put files there."""
    try:
        above = private_folder(user_folder()).lstat()
    except OSError:
        return None
    return None if above.st_uid != os.getuid() or above.st_mode & 0o077 else user_folder()
