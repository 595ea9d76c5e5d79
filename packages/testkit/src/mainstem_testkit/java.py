"""A quick start for Java, and none of its second compiler.

A test that kills a process starts Spark anew each time. From an archive of Spark's classes (`mainstem
class-archive`), and without that compiler, that takes half the time. The shared session goes without it
too: it costs more than it saves where each query is another one and has a handful of rows. What is left
has room for 48 MB of code, which the queries of some tests fill; then nothing is compiled any more. So it
gets 240, as much as Java has with both.
"""

from __future__ import annotations

import os
import warnings

from mainstem import MachineError
from mainstem.run import class_archive
from mainstem.run.session import find_java as find_java

_OPTIONS = "JDK_JAVA_OPTIONS"


def start_java_quickly() -> None:
    """Let every Java that this process starts from now on start quickly.

    Does nothing where `JDK_JAVA_OPTIONS` is set already.
    """
    if _OPTIONS in os.environ:
        return
    if not class_archive.options():
        from mainstem.run.archiving import make

        why = "the archive of classes is of no use"
        try:
            make(anew=False)
        except MachineError as error:
            why = str(error)
        if not class_archive.options():
            warnings.warn(f"Java will start slowly: {why}", RuntimeWarning, stacklevel=2)
    quick = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    os.environ[_OPTIONS] = f"{quick} {class_archive.options()}".strip()
