"""``python -m tests.spark_consumer.job_of_small_copies …``: the job, to which a copy of ten records is a large one.

Large copies are written beside the plans, and rows by the hundred thousand are nothing for a test.
"""

from __future__ import annotations

import sys

from walbridge.spark_consumer.__main__ import main
from walbridge.spark_consumer.plan import ended_copies

if __name__ == "__main__":
    ended_copies.DEFERRED_RECORDS_MIN = 10
    sys.exit(main())
