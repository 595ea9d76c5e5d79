"""An archive of the classes that Spark loads, from which Java starts in less time.

Java's class data sharing: a Java that ends writes down the classes that it has loaded, and others map
that file in place of reading and checking them from jars. An archive is of one Java and one PySpark; Java
looks itself whether it fits, and goes without it where it does not. `mainstem.run.archiving` makes one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

#: What says which Spark it is; a part of the path of its classes.
_OF_SPARK = ("SPARK_HOME", "SPARK_CONF_DIR")


def place() -> Path:
    """Return where the archive of this Java and this PySpark is, or would be: in the user's cache.

    Raises:
        OSError: there is no Java.
        ModuleNotFoundError: there is no PySpark.
    """
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    java = found.resolve(strict=True)
    if not java.is_file():
        raise OSError("there is no Java")
    parts = [
        *(str(java), java.stat().st_mtime_ns, version("pyspark"), str(spark_folder())),
        *map(os.environ.get, _OF_SPARK),
    ]
    name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "mainstem" / "java" / f"{name}.jsa"


def about(archive: Path) -> Path:
    """Return the file that says of an archive how many `bytes` it has, and the `pyspark` it is of."""
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


def options() -> str:
    """Return what Java is told so that it starts from the archive; empty where there is none of ours."""
    try:
        archive = place()
        found = archive.stat()
        size = json.loads(about(archive).read_text())["bytes"]
    except (
        OSError,
        ValueError,
        ModuleNotFoundError,
        RuntimeError,
    ):  # the last: nobody has that home
        return ""
    if found.st_size != size:  # Java would crash over one that is cut off
        return ""
    if found.st_uid not in (0, os.getuid()) or found.st_mode & 0o022:
        return ""  # others could put their own code there
    # Java is quiet of one that is for another path of classes.
    return f'"-XX:SharedArchiveFile={archive}" -Xshare:auto -Xlog:disable -Xlog:all=error'
