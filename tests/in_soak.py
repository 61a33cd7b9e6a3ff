"""Parameters of a test that only ``make soak`` takes: another way to what one of every run has shown."""

from __future__ import annotations

import pytest


def in_soak(*values: object) -> object:
    """One set of values for ``pytest.mark.parametrize`` or the ``params`` of a fixture."""
    return pytest.param(*values, marks=pytest.mark.soak)
