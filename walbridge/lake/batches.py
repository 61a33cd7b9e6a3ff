"""How DataFusion is to read a lake table.

In: a Delta table. Out: options of a session whose batches are of bounded size, however wide the rows (I9), and whose
times are right, whichever engine wrote them.
"""

import pyarrow as pa
from deltalake import DeltaTable

_BATCH_BYTES = 32 * 2**20
_BATCH_ROWS_MAX = 8192
_UNPACKED = 4
"""How much larger rows are than their files, about."""
# Spark's default is INT96, whose nanoseconds would wrap outside the years 1677 to 2262.
_TIMES = {"datafusion.execution.parquet.coerce_int96": "us"}


def session_options(table: DeltaTable) -> dict[str, str]:
    """For ``QueryBuilder``."""
    return {"datafusion.execution.batch_size": str(_batch_rows(table)), **_TIMES}


def _batch_rows(table: DeltaTable) -> int:
    """Wide rows come in small batches."""
    actions = pa.table(table.get_add_actions(flatten=True))
    rows = sum(count or 0 for count in actions["num_records"].to_pylist())
    size = sum(actions["size_bytes"].to_pylist()) * _UNPACKED
    return max(16, min(_BATCH_ROWS_MAX, _BATCH_BYTES * rows // max(size, 1) or _BATCH_ROWS_MAX))
