"""An archive of the classes that Spark loads, from which Java starts in less time.

Java's class data sharing: a Java that ends writes down the classes that it has loaded, and others map
that file in place of reading and checking them from jars. An archive is of one Java and one PySpark; Java
looks itself whether it fits, and goes without it where it does not. `mainstem.run.archiving` makes one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

#: The folder of archives, where it is not in the user's cache.
FOLDER = "MAINSTEM_CLASS_ARCHIVES"
#: What Java itself takes options from.
JAVA_OPTIONS = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
#: Options of which ours would be a second, or against it.
_OTHERS = re.compile(r"Archive|-Xshare")
#: What no path can have that Java is told in an option.
_NO_PATH = re.compile(r'["\\:\n]')


def place() -> Path:
    """Return where the archive of this Java and this PySpark is, or would be.

    Raises:
        OSError: there is no Java.
        RuntimeError: nobody knows where the user's cache is.
        ModuleNotFoundError: there is no PySpark.
    """
    name = hashlib.sha256(json.dumps(of()).encode()).hexdigest()[:16]
    given = os.environ.get(FOLDER)
    if given:
        return Path(given, f"{name}.jsa")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "mainstem" / "java" / f"{name}.jsa"


def of() -> dict[str, Any]:
    """Return what an archive is of: this Java, and this PySpark.

    Raises:
        OSError: there is no Java.
        ModuleNotFoundError: there is no PySpark.
    """
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    java = found.resolve(strict=True)
    if not java.is_file():
        raise OSError("there is no Java")
    return {
        "java": str(java),
        "made": java.stat().st_mtime_ns,
        "pyspark": str(spark_folder()),
        "version": version("pyspark"),
        "home": os.environ.get("SPARK_HOME"),
        "conf": os.environ.get("SPARK_CONF_DIR"),
    }


def about(archive: Path) -> Path:
    """Return the file that says how many `bytes` an archive has, and what it is `of`."""
    return archive.with_suffix(".json")


def spark_folder() -> Path:
    """Return the folder of PySpark.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pyspark")
    return Path(found.origin).parent


def options(own: str = "") -> str:
    """Return what Java is told so that it starts from the archive; empty where there is none of ours.

    Args:
        own: what it is told beside that. It gets no second archive.
    """
    if _OTHERS.search(" ".join([own, *(os.environ.get(name, "") for name in JAVA_OPTIONS)])):
        return ""
    try:
        archive = place()
    except (OSError, RuntimeError, ModuleNotFoundError):
        return ""
    # Nothing is said of one that is for another path of classes.
    quiet = "-Xshare:auto -Xlog:cds*=off"
    return f'"-XX:SharedArchiveFile={archive}" {quiet}' if usable(archive) else ""


def usable(archive: Path) -> bool:
    """Whether an archive is there, is whole, and could be written by nobody else."""
    try:
        size = json.loads(about(archive).read_text())["bytes"]
        # Java would crash over one that is cut off. What others may write could be their own code.
        there = ours(archive.parent) and ours(archive) and archive.lstat().st_size == size
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return there and nameable(archive)


def nameable(archive: Path) -> bool:
    """Whether Java can be told the path in an option."""
    return not _NO_PATH.search(str(archive))


def ours(path: Path) -> bool:
    """Whether nobody but this user and the system's can write a file or a folder.

    Raises:
        OSError: it is not there.
    """
    found = path.lstat()
    return (
        found.st_uid in (0, os.getuid())
        and not found.st_mode & 0o022
        and not stat.S_ISLNK(found.st_mode)
    )
