"""Fuzzing by atheris, target by target, each in a process of its own.

In: how many inputs in all. Out: what each target took, how fast, and what broke a promise: an error
that is none of the decoder's, an input that takes more than ``INPUT_S`` or ``MEMORY_MB``.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.targets import TARGETS, seeds

INPUT_S = 5
MEMORY_MB = 1_024
INPUT_BYTES_MAX = 4_096
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_COVERED = re.compile(r"cov: (\d+)")
_PEAK_MB = re.compile(r"stat::peak_rss_mb:\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Result:
    """Of one target. ``finding``: the file that repeats it, and what was said; None: all promises were kept."""

    target: str
    inputs: int
    seconds: float
    covered: int
    peak_mb: int
    finding: str | None

    def __str__(self) -> str:
        rate = self.inputs / self.seconds if self.seconds else 0
        line = (
            f"{self.target:16} {self.inputs:>10,} inputs {rate:>8,.0f}/s  {self.covered:>5} edges {self.peak_mb:>5} MB"
        )
        return f"{line}  {'ok' if self.finding is None else self.finding}"


def shares(inputs: int, names: Sequence[str] = tuple(TARGETS)) -> dict[str, int]:
    """The inputs of each target, by weight: no fewer than asked for in all."""
    weights = sum(TARGETS[name].weight for name in names)
    return {name: -(-inputs * TARGETS[name].weight // weights) for name in names}


def fuzz(name: str, inputs: int, folder: Path, seed: int = 0) -> Result:
    """One target. ``seed`` 0: another one each time."""
    corpus, found = folder / name / "corpus", folder / name / "findings"
    for each in (corpus, found):
        each.mkdir(parents=True, exist_ok=True)
    for at, data in enumerate(seeds(name)):
        (corpus / f"seed-{at}").write_bytes(data)
    limits = [f"-timeout={INPUT_S}", f"-rss_limit_mb={MEMORY_MB}", f"-max_len={INPUT_BYTES_MAX}"]
    arguments = [f"-runs={inputs}", f"-seed={seed}", f"-artifact_prefix={found}/", "-print_final_stats=1", *limits]
    started_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run_target", name, *arguments, str(corpus)],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    seconds = time.monotonic() - started_s
    executed, covered, peak_mb = (_last(pattern, done.stderr) for pattern in (_EXECUTED, _COVERED, _PEAK_MB))
    finding = None if done.returncode == 0 and executed else _told(name, done.stdout + done.stderr, found)
    return Result(name, executed, seconds, covered, peak_mb, finding)


def _last(pattern: re.Pattern[str], said: str) -> int:
    return int(next(reversed(pattern.findall(said)), "0"))


def _told(name: str, said: str, found: Path) -> str:
    files = sorted(found.iterdir(), key=lambda each: each.stat().st_mtime)
    again = f"python -m tests.fuzz.run_target {name} {files[-1]}" if files else "it left no input"
    return f"BROKEN; again: {again}\n{said[-3000:]}"


def campaign(inputs: int, folder: Path, processes: int, names: Sequence[str] = tuple(TARGETS)) -> Iterator[Result]:
    """Every target, in the order of the table."""
    with ThreadPoolExecutor(processes) as pool:
        each_share = shares(inputs, names).items()
        yield from pool.map(lambda share: fuzz(share[0], share[1], folder), each_share)
