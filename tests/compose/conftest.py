"""One stack for all tests of this folder that ask for it: images are built and services started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compose.stack import Stack, refusal


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The stack, up and healthy; gone with all its data afterwards."""
    if reason := refusal():
        pytest.skip(reason)
    made = Stack()
    try:
        made.build()
        made.up()
        yield made
    finally:
        made.close()
        print("".join(f"\n{name}: {seconds} s" for name, seconds in made.seconds.items()))
