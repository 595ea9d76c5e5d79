"""The order of a query's sources, by which PySpark before 4.3 knows how far each has been read.

Its records name no sources, so the order in which the plan has them is kept beside them: `History` reads
them by it, and a plan of another order, which would read each from another's place, is refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packaging.version import Version

from mainstem.durable import made_folder, write_whole
from mainstem.errors import PipelineError
from mainstem.history import History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The first PySpark that names sources in its records.
_NAMES = (4, 3)


def keep_order(history: History, streaming: DataFrame) -> None:
    """Keep the order of the sources of a query that is about to start, where Spark goes by it.

    Args:
        history: of the query.
        streaming: its whole streaming frame.

    Raises:
        PipelineError: batches were planned with sources in another order, or by an older PySpark.
    """
    from pyspark import __version__

    begun = bool(history.planned())
    if Version(__version__).release >= _NAMES:
        if begun and history.order_file.exists():
            raise PipelineError(
                f"{history.folder} was begun with a PySpark before 4.3, which names no sources: go on "
                "with that, or start over with `--fresh`"
            )
        history.order_file.unlink(missing_ok=True)
        return
    now = _order(streaming)
    if not begun:
        made_folder(history.folder)
        write_whole(history.order_file, json.dumps(now))
    elif (before := history.source_order()) != now:
        raise PipelineError(
            f"PySpark {__version__} knows the sources of a query by their order, which was "
            f"{', '.join(before)} and is {', '.join(now)} now: change the document back, or start over "
            "with `--fresh`; PySpark 4.3 knows them by name"
        )


def _order(streaming: DataFrame) -> list[str]:
    """Return the names of a frame's streams in the order in which Spark numbers them, each once."""
    leaves = streaming._jdf.queryExecution().analyzed().collectLeaves()
    found = [leaves.apply(number) for number in range(leaves.size())]
    # What a `WITH` names is a leaf wherever it is read, and has its streams where it is defined.
    streams = [leaf for leaf in found if "StreamingRelation" in leaf.getClass().getSimpleName()]
    return list(dict.fromkeys(str(leaf.sourceIdentifyingName().name()) for leaf in streams))
