"""A stop ends the wait for a server, and nothing that comes later is left open."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from walbridge.producer.postgres.interruptible import connecting, hung_up_after
from walbridge.producer.waits import Stopped

BOUND_S = 60.0


def never() -> None:
    """Nobody asks for a stop."""


def stopped() -> None:
    raise Stopped


def test_connection_is_returned_and_an_error_raised_as_without_a_thread() -> None:
    def refuse() -> str:
        raise ConnectionRefusedError

    assert connecting(lambda: "made", str, never) == "made"
    with pytest.raises(ConnectionRefusedError):
        connecting(refuse, str, never)


def test_stop_leaves_a_connection_that_does_not_come_and_closes_it_when_it_comes() -> None:
    answered, closed = threading.Event(), threading.Event()

    def connect() -> threading.Event:
        assert answered.wait(BOUND_S)
        return closed

    with pytest.raises(Stopped):
        connecting(connect, threading.Event.set, stopped)
    assert not closed.is_set()
    answered.set()
    assert closed.wait(BOUND_S)


@pytest.mark.parametrize("should_stop", [None, lambda: True], ids=["silence", "stop"])
def test_answer_that_does_not_come_is_given_up_after_its_time_and_sooner_after_a_stop(should_stop: object) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        timeout_s = 0.01 if should_stop is None else 10 * BOUND_S
        ours.settimeout(BOUND_S)
        with hung_up_after(ours.fileno(), timeout_s, should_stop):  # type: ignore[arg-type]
            assert ours.recv(1) == b""


def test_answer_that_came_in_time_leaves_the_socket_open() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with hung_up_after(ours.fileno(), 10 * BOUND_S, lambda: False):
            theirs.send(b"1")
            assert ours.recv(1) == b"1"
        theirs.send(b"2")
        assert ours.recv(1) == b"2"


def test_wait_that_ends_while_the_socket_is_being_shut_down_lasts_until_that_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its number may be another socket's by then."""
    begun, left, done = threading.Event(), threading.Event(), threading.Event()
    duplicate = os.dup

    def slow(descriptor: int) -> int:
        begun.set()
        left.wait(0.2)
        done.set()
        return duplicate(descriptor)

    monkeypatch.setattr(os, "dup", slow)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with hung_up_after(ours.fileno(), 0.001):
            assert begun.wait(BOUND_S)
        was_done = done.is_set()
        left.set()
    assert was_done
