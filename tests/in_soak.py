"""Parameters of a test that only ``make soak`` takes: another way to what one of every run has shown."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest


def in_soak(*values: object) -> object:
    """One set of values for ``pytest.mark.parametrize`` or the ``params`` of a fixture."""
    return pytest.param(*values, marks=pytest.mark.soak)


def others_in_soak(values: Iterable[object], in_each_run: Collection[object]) -> list[object]:
    """All values of one parameter, those of every run as they are."""
    return [each if each in in_each_run else in_soak(each) for each in values]
