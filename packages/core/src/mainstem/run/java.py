"""Finds a Java that Spark can run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from mainstem.errors import MachineError

OLDEST = 17
_INSTALL = (
    f"Install Java {OLDEST} or newer (Debian: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) or set JAVA_HOME to one."
)


def find_java() -> str:
    """Return the path of `java`, from JAVA_HOME or PATH.

    Raises:
        MachineError: there is none, it does not start, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")  # noqa: PTH118
    where = f"JAVA_HOME={home}" if home else "PATH"
    if not path or not os.path.exists(path):  # noqa: PTH110
        raise MachineError(f"Spark needs Java, and {where} has none. {_INSTALL}")
    try:
        found = subprocess.run(  # noqa: S603
            [path, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"{path} does not start: {error}. {_INSTALL}") from None
    match = re.search(r'version "(\d+)', found.stderr + found.stdout)
    version = int(match.group(1)) if match else 0
    if version < OLDEST:
        raise MachineError(f"{path} is Java {version or 'unknown'}, too old for Spark. {_INSTALL}")
    return path
