"""What costs much and is the same for every seed is computed once; and how many steps of a small history are struck."""

from collections.abc import Iterator

import pytest

from tests.in_soak import in_soak
from tests.simulation import cases
from tests.simulation.seams import remembered_code


@pytest.fixture(autouse=True, scope="package")
def schemas_once() -> Iterator[None]:
    """For all runs of this process."""
    with remembered_code():
        yield


@pytest.fixture(params=[2, in_soak(1)], ids=["every other step", "every step"])
def steps_apart(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ``with_fault_at_every_step``."""
    monkeypatch.setattr(cases, "STEPS_APART", request.param)
