"""A small mistake made in the code on purpose, to see that a test notices it.

A mutant is one edit in the source of one function, recompiled in its place for the test. The text
that it edits must be there exactly once: a mutant that the code has outgrown fails by itself.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from types import FunctionType
from typing import Any

import pytest

from walbridge.schemas.errors import OperatorError, ProtocolError, RetryableError

FAILURES = (AssertionError, pytest.fail.Exception, OperatorError, ProtocolError, RetryableError)
"""How a test fails: what it asserts or expects, or a refusal of our own. Another error is a botched mutant."""

DRAWS = 8
"""How often a test is run that does not notice a mistake: a property draws other examples each time."""


@dataclass(frozen=True)
class Mutant:
    """``text`` of ``function`` becomes ``mistake``; a property is the function behind it.

    ``seed``: of the simulated run that found it last, which is asked first.
    """

    function: Any
    text: str
    mistake: str
    seed: int = 0


@contextmanager
def made(mutant: Mutant) -> Iterator[None]:
    """The mistake is in the code."""
    function = _behind(mutant.function)
    assert isinstance(function, FunctionType)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(mutant.text) == 1, f"{function.__qualname__} holds {mutant.text!r} not exactly once"
    scope: dict[str, Any] = {}
    exec(compile(source.replace(mutant.text, mutant.mistake), "<mutant>", "exec"), function.__globals__, scope)
    compiled = scope[function.__name__]
    saved, function.__code__ = function.__code__, _behind(compiled).__code__
    try:
        yield
    finally:
        function.__code__ = saved


def _behind(function: Any) -> Any:
    """The function behind a property."""
    if isinstance(function, property):
        return function.fget
    return function.func if isinstance(function, cached_property) else function


@dataclass(frozen=True)
class Noticed:
    """A mutant and the test that must fail on it; one that takes arguments is given them here (``partial``)."""

    mutant: Mutant
    test: Callable[[], object]

    def check(self) -> None:
        """The test fails with the mistake, and passes where the same function is only compiled anew."""
        with made(self.mutant), pytest.raises(FAILURES):
            self._run_until_noticed()
        with made(replace(self.mutant, mistake=self.mutant.text)):
            self.test()

    def _run_until_noticed(self) -> None:
        for _ in range(DRAWS):
            self.test()
