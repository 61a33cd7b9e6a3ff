"""What ``/metrics`` of either program is made of: a registry with the process's own figures, and the program's state.

In: the pipeline's name. Out: each of our samples with a label ``pipeline``, so that one Prometheus tells several apart;
those of the process are as every Python program has them.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

OURS = "walbridge_"


def new_registry(pipeline: str = "") -> CollectorRegistry:
    """A registry with CPU seconds, memory and open files of this process."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter
    registry = _Labelled(pipeline)
    ProcessCollector(registry=registry)
    return registry


def show_start(prefix: str, registry: CollectorRegistry) -> None:
    """When this program was started: one that a supervisor starts again and again shows other times."""
    meaning = "When the program was started, in seconds since 1970"
    Gauge(f"{prefix}_start_time_seconds", meaning, registry=registry).set(time.time())


def free_bytes(folder: str) -> float:
    """Of the disk of a folder; not a number for an object store, which has no such limit that anybody could ask for."""
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
            if self._pipeline and metric.name.startswith(OURS):
                metric.samples = [
                    sample._replace(labels={"pipeline": self._pipeline} | sample.labels) for sample in metric.samples
                ]
            yield metric


class StateGauge(Collector):
    """1 for one of the states, as it is when somebody asks."""

    def __init__(self, prefix: str, states: Iterable[str], state: Callable[[], str]) -> None:
        self._name, self._states, self._state = f"{prefix}_state", tuple(states), state

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, "1 for what the program is doing", labels=[self._name])
        state = self._state()
        for each in self._states:
            family.add_metric([each], float(each == state))
        yield family
