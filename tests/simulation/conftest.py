"""What costs much and is the same for every seed is computed once."""

from collections.abc import Iterator

import pytest

from tests.simulation.seams import remembered_code


@pytest.fixture(autouse=True, scope="package")
def schemas_once() -> Iterator[None]:
    """For all runs of this process."""
    with remembered_code():
        yield
