"""Two commands that query the demo's tables, to be pasted into a shell.

In: the demo's folder. Out: the commands as text. The Spark line reads all tables at one LSN; the other needs no
Java and reads one table as it is now.
"""

import json
import shlex
import sys
from pathlib import Path

from walbridge.demo.demo_folder import DemoFolder
from walbridge.embedded.java import find_java
from walbridge.schemas.topics import table_path


def spark_line(folder: DemoFolder) -> str:
    """Spark, through ``walbridge.spark_consumer.read.tables_at``."""
    program = f"""
from walbridge.schemas.settings_file import load_settings
from walbridge.spark_consumer.read import tables_at
from walbridge.spark_consumer.jvm.spark_session import spark_session
settings = load_settings({json.dumps(str(folder.config))})
tables = tables_at(spark_session(settings), settings.lake.path)
tables["public.pgbench_accounts"].selectExpr("count(*)", "sum(abalance)").show()
"""
    java_home = shlex.quote(str(find_java().java_home))
    return f"JAVA_HOME={java_home} {_python(program)}"


def deltalake_line(folder: DemoFolder) -> str:
    """SQL by delta-rs."""
    table = Path(folder.lake) / table_path("public", "pgbench_accounts")
    program = f"""
import pyarrow; from deltalake import DeltaTable, QueryBuilder
query = QueryBuilder().register("accounts", DeltaTable({json.dumps(str(table))}))
rows = query.execute("SELECT count(*) AS rows, sum(abalance) AS balance FROM accounts").read_all()
print(pyarrow.table(rows).to_pylist())
"""
    return _python(program)


def _python(program: str) -> str:
    one_line = "; ".join(line for line in program.strip().splitlines())
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(one_line)}"
