"""The Spark job, top to bottom: cuts → plan → records → tables → published cut.

In: the cuts topic. Out: Delta tables and rows of ``_cuts``. Each ``Job`` starts from the lake's newest row
(``resumption.py``): it finishes the plan that a killed job left open, applies all cuts of the topic, and follows it.
"""

import threading
from contextlib import nullcontext

from pyspark.sql import SparkSession

from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.errors import CutsLost
from walbridge.spark_consumer.kafka.change_reader import LARGE_BYTES
from walbridge.spark_consumer.kafka.control.cuts_source import Cuts, CutsFrom, CutsSource
from walbridge.spark_consumer.kafka.control.hidden_cuts import HiddenCuts
from walbridge.spark_consumer.kafka.control.metadata_topic import MetadataTopic
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.metrics import RUNNING, JobMetrics
from walbridge.spark_consumer.pace import Pace
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.plan import ByteLimit, take_cuts
from walbridge.spark_consumer.plan_runner import PlanRunner
from walbridge.spark_consumer.resumption import Resumption, plan_of, refuse_faults, suspecting_missing_storage


class Job:
    """One pipeline into one lake."""

    def __init__(
        self, spark: SparkSession, settings: Settings, stop: threading.Event, metrics: JobMetrics | None = None
    ) -> None:
        self._settings, self._stop = settings, stop
        # A batch gets one transaction more at the most, which is split at the same size. Of a larger record only place
        # and size are held.
        batch_bytes = 2 * settings.producer.batch_bytes_max + LARGE_BYTES
        self._byte_limit = ByteLimit(settings.lake.plan_bytes_max, batch_bytes, LARGE_BYTES)
        self._metrics = metrics or JobMetrics()
        self._kafka = KafkaLog(spark, settings)
        self._source = CutsSource(spark, self._kafka, settings)
        self._hidden_cuts = HiddenCuts(self._kafka, settings.name, settings.lake.visible_timeout_s)
        metadata = MetadataTopic(self._kafka, settings.name)
        self._pace = Pace(settings.lake.publish_interval_ms)
        self._plans = PlanRunner(
            spark, self._kafka, metadata, settings, self._metrics, self._pace, lambda: KafkaLog(spark, settings)
        )
        self._resumption = Resumption(settings, self._source, self._plans, self._metrics)
        self._state = LakeState(settings.name)
        self.is_started = False
        """Whether Kafka has answered once. From then on a silent broker is waited for, and is no operator's error."""

    def run(self, *, once: bool) -> None:
        """Finish the open plan, catch up with the log, then follow it. ``once``: only to its present end.

        Raises:
            OperatorError: only a person can go on.
            RetryableError: a server is away, or another attempt begins with a new epoch.
        """
        start, end = self._source.bounds()
        self.is_started = True
        self._metrics.enter(RUNNING)
        newest = self._plans.manifest.newest()
        with suspecting_missing_storage(self._settings.lake.path) if newest is None else nullcontext():
            try:
                self._state = self._resumption.state(newest, start, end)
                self._apply_new(lambda offset: self._source.read(offset, end))
            except CutsLost as lost:
                self._state = self._resumption.state_of_newest_epoch(lost, start, end)
                self._apply_new(lambda offset: self._source.read(offset, end))
        if not self._stop.is_set():
            with self._resumption.retrying_with_new_epoch(lambda: self._state):
                self._source.follow(
                    end, self._apply_new, self._stop, self._idle, once=once, wait_s=lambda: self._pace.wait_s
                )
        self._state = self._plans.publish_idle(self._state, now=True)
        if once:
            self._state = self._plans.finish(self._state, self._stop)

    def close(self) -> None:
        """Cancel a copy that is written beside the plans, and close the Kafka clients."""
        self._plans.close()
        self._kafka.close()

    def _apply_new(self, cuts_from: CutsFrom) -> None:
        """Apply the cuts from the next offset on, a bounded number at a time (I9)."""
        for cuts in cuts_from(self._state.next_offset):
            self._apply(cuts)
            # After a stop some cuts may not be applied: later ones must not be compared with the last applied cut.
            if self._stop.is_set():
                return

    def _idle(self) -> None:
        """Nothing is to be applied."""
        self._metrics.pulse.beat()
        self._hidden_cuts.look()
        self._state = self._plans.publish_idle(self._state)

    def _apply(self, cuts: Cuts) -> None:
        """Apply these cuts plan by plan, until the job is asked to stop."""
        refuse_faults(self._state, cuts)
        while cuts and not self._stop.is_set():
            count = take_cuts(cuts, self._settings.lake.plan_rows_max, self._byte_limit)
            state, plan = plan_of(cuts[:count], self._state, self._plans)
            self._state = self._plans.carry_out(plan, state, is_open=False)
            cuts = cuts[count:]
