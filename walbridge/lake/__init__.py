"""For readers without Spark, Kafka or Java: all tables of a lake at one LSN, as streams of Arrow.

    from walbridge.lake import tables_at
    tables = tables_at("/data/lake")
    for batch in tables["public.orders"].reader():
        ...

In: a lake's path, and an LSN or a time if wanted. Out: tables of one published cut (I8), refused where they do not
equal the source. Needs the extra ``lake``.
"""

from walbridge.lake.table import LakeTable
from walbridge.lake.tables import LakeTables, published, tables_at

__all__ = ["LakeTable", "LakeTables", "published", "tables_at"]
