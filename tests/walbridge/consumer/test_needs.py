"""What reading the topics needs of an installation."""

import subprocess
import sys

from tests.documents import ROOT

BLOCKED = ("psycopg", "pyspark", "py4j", "deltalake", "pyarrow", "pandas", "numpy")


def test_consumer_needs_no_extra_but_its_own() -> None:
    program = f"import sys; sys.modules |= dict.fromkeys({BLOCKED!r}); from walbridge.consumer import events"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)


def test_consumer_without_its_client_says_which_extra_brings_it() -> None:
    program = "import sys; sys.modules['confluent_kafka'] = None; import walbridge.consumer"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert "pip install '.[consumer]'" in done.stderr.splitlines()[-1]
