"""The registry of a program's metrics: it has those of the process from the start, and a gauge of the program's state.

In: the pipeline's name. Out: samples of walbridge's metrics with a label ``pipeline``, so that one Prometheus server
can tell pipelines apart; metrics of the process are as in every Python program.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

METRIC_PREFIX = "walbridge_"


def new_registry(pipeline: str = "") -> CollectorRegistry:
    """A registry with CPU seconds, memory and open files of this process."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter
    registry = _Labelled(pipeline)
    ProcessCollector(registry=registry)
    return registry


def show_start(prefix: str, registry: CollectorRegistry) -> None:
    """Add the time of this start: it changes each time a supervisor starts the program again."""
    meaning = "When the program was started, in seconds since 1970"
    Gauge(f"{prefix}_start_time_seconds", meaning, registry=registry).set(time.time())


def free_bytes(folder: str) -> float:
    """Free bytes on the disk of a folder; NaN for an object store, and where nobody can tell."""
    try:
        return float(shutil.disk_usage(folder).free) if "://" not in folder else float("nan")
    except OSError:
        return float("nan")


class _Labelled(CollectorRegistry):
    def __init__(self, pipeline: str) -> None:
        super().__init__()
        self._pipeline = pipeline

    def collect(self) -> Iterable[Metric]:
        for metric in super().collect():
            if self._pipeline and metric.name.startswith(METRIC_PREFIX):
                metric.samples = [
                    sample._replace(labels={"pipeline": self._pipeline} | sample.labels) for sample in metric.samples
                ]
            yield metric


class StateGauge(Collector):
    """A gauge with a sample for each state: 1 for the state at the time of the request, 0 for the others."""

    def __init__(self, prefix: str, states: Iterable[str], state: Callable[[], str]) -> None:
        self._name, self._states, self._state = f"{prefix}_state", tuple(states), state

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, "1 for what the program is doing", labels=[self._name])
        state = self._state()
        for each in self._states:
            family.add_metric([each], float(each == state))
        yield family
