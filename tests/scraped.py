"""What a program shows at ``/metrics``, asked as Prometheus asks."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families


class Scraped:
    """One program, by the port that its log names."""

    def __init__(self, log: str) -> None:
        found = re.search(r"metrics .*?\bhost=(\S+) port=(\d+)", log)
        assert found is not None, log
        self._address = f"http://{found[1]}:{found[2]}/metrics"

    def text(self) -> str:
        with urllib.request.urlopen(self._address, timeout=10) as answer:
            return str(answer.read().decode())

    def value(self, name: str, **labels: str) -> float:
        """Of the one series with these labels, beside ``pipeline``."""
        (value,) = [value for shown, value in self._series(name) if shown == labels]
        return value

    def state(self, program: str) -> str:
        (state,) = [
            labels[f"walbridge_{program}_state"]
            for labels, value in self._series(f"walbridge_{program}_state")
            if value == 1
        ]
        return state

    def _series(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        for family in text_string_to_metric_families(self.text()):
            for sample in family.samples:
                if sample.name == name:
                    yield {key: each for key, each in sample.labels.items() if key != "pipeline"}, sample.value
