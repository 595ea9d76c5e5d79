"""The process that answers requests without a Spark session: JSON lines in and out."""

from __future__ import annotations

import json
import os
import shlex
import sys


def main() -> None:
    """Answer until the input ends."""
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what Java prints is none of the answers

    from pyspark.java_gateway import launch_gateway

    from mainstem.analysis.java import Analyser
    from mainstem.analysis.requests import Request
    from mainstem.run import class_archive

    options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {class_archive.options()}".strip()
    given = f"--driver-java-options {shlex.quote(options)} pyspark-shell"
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", given)
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    analyser = Analyser(gateway.jvm)
    try:
        for line in sys.stdin:
            asked = [Request(**{**each, "conf": ()}) for each in json.loads(line)]
            told.write(f"[{', '.join(analyser.answer(each).as_json() for each in asked)}]\n")
            told.flush()
    finally:
        gateway.shutdown()


if __name__ == "__main__":
    main()
