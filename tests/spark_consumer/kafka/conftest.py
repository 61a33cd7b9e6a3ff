"""Decoders are ours: Spark runs them as compiled as it does for the job."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def as_the_job_runs_them(request: pytest.FixtureRequest) -> None:
    """Where a test needs Spark at all."""
    if "spark" in request.fixturenames:
        request.getfixturevalue("compiled")
