"""Producer and job together: a simulated run's topics are what the job reads, both die at any step (I1, I4, I5, I8).

The producer alone is in ``test_copies.py``, with thousands of seeds, and the job alone in ``test_copies_in_memory.py``.
Spark folds the chains of keys that move with unknown values, of which these histories are full.
"""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.in_soak import others_in_soak
from tests.simulation.lake_over_broker import BrokerPipeline, RequestsToBroker
from tests.simulation.lake_reader import LakeReader
from tests.simulation.run import Case, Run
from tests.simulation.seams import installed
from tests.simulation.world import Finished
from tests.spark_consumer.memory_pipeline import Beside, job_over
from walbridge.spark_consumer import plan_runner
from walbridge.spark_consumer.kafka.control import cuts_source

CHUNK, SEEDS = 3, range(1, 301)


def followed(seed: int, lake: Path, spark: SparkSession) -> Counter[str]:
    """The states that the lake published of the table, how often."""
    run = Run(seed, Case(has_copy=True))
    pipeline = BrokerPipeline(run.broker, spark)
    if seed % 2:  # copies are written beside the plans, and done sooner or later
        random = Random(seed)
        pipeline.beside = Beside(deferred_from=2, gets_on=lambda: random.random() < 0.4)
    world = installed(run.world, run.server, run.broker, run.copied)
    with job_over(pipeline, lake) as run_job, pytest.MonkeyPatch.context() as patch, world:
        patch.setattr(plan_runner, "CopyRequests", lambda _, *of: RequestsToBroker(run.broker, *of))
        reader = LakeReader(run, lake, run_job)
        try:
            if run.to_the_end() is None:
                reader.end()
        except Finished:  # damage that nobody could prevent was found, as test_seeds.py wants it
            pass
    return reader.states


@pytest.mark.simulation
@pytest.mark.parametrize("first", others_in_soak(SEEDS[::CHUNK], [10]))
def test_every_published_state_of_a_table_that_is_copied_is_the_source(
    first: int, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1, I4, I5, I8. The runs must also have met what they are there for."""
    # Few enough that none of them are counted in bytes first, which would take Kafka.
    monkeypatch.setattr(cuts_source, "OFFSETS_PER_READ", cuts_source.LARGE_OFFSETS_PER_READ)
    states: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        print(f"seed {seed}")
        states += followed(seed, tmp_path / f"lake_{seed}", spark)

    assert states["current"] >= CHUNK
    assert states["copying"] >= CHUNK
