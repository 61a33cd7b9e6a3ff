"""Parameters of a test that not every run takes: another way to what one of every run has shown.

Those of ``make variants`` are run by ``make soak`` as well, which alone runs its own. Those of the simulation are in
``make test``, and not in ``make check``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest


def in_soak(*values: object) -> object:
    """One set of values for ``pytest.mark.parametrize`` or the ``params`` of a fixture."""
    return pytest.param(*values, marks=pytest.mark.soak)


def others_in_soak(values: Iterable[object], in_each_run: Collection[object]) -> list[object]:
    """All values of one parameter, those of every run as they are."""
    return [each if each in in_each_run else in_soak(each) for each in values]


def in_variants(*values: object) -> object:
    """One set of values: one more of a kind that ``make test`` shows already."""
    return pytest.param(*values, marks=pytest.mark.variant)


def others_in_variants(values: Iterable[object], in_each_run: Collection[object]) -> list[object]:
    """All values of one parameter, those of every run as they are."""
    return [each if each in in_each_run else in_variants(each) for each in values]


def others_in_simulation(values: Iterable[object], in_each_check: Collection[object]) -> list[object]:
    """All values of one parameter, those of ``make check`` as they are."""
    return [each if each in in_each_check else pytest.param(each, marks=pytest.mark.simulation) for each in values]
