"""A catalog in a folder, as the option `path` has it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow


def catalog(path):
    path.mkdir(parents=True, exist_ok=True)
    settings = {
        "type": "sql",
        "uri": f"sqlite:///{path}/catalog.db",
        "warehouse": f"file://{path}",
    }
    return load_catalog("mainstem", **settings)


def held(table):
    """Return a table's rows, from its files; the library's own scan makes empty lists of some null ones."""
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    empty = schema_to_pyarrow(table.schema(), include_field_ids=False).empty_table()
    found = [pq.read_table(file) for file in files]
    return pa.concat_tables([empty, *found], promote_options="permissive")
