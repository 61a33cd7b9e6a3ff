"""Whatever streamed and prepared transactions send, in whatever order: only what is committed gets out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producer.uncommitted_server import TABLES, Server
from tests.producer.uncommitted_session import Session
from walbridge.producer.session.transactions.transaction_spool import Spool
from walbridge.schemas.errors import OperatorError, ProtocolError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Producer

_tables = st.lists(st.sampled_from(TABLES), max_size=3)
_place = st.integers(0, 5)
_ends = st.sampled_from(("commit", "commit", "abort", "prepare"))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("transaction"), _tables),
        st.tuples(st.just("begin")),
        st.tuples(st.just("block"), _place, _tables),
        st.tuples(st.just("block"), _place, _tables),
        st.tuples(st.just("savepoint"), _place),
        st.tuples(st.just("release"), _place),
        st.tuples(st.just("roll_back_to"), _place),
        st.tuples(st.just("end"), _place, _ends),
        st.tuples(st.just("prepare"), _tables),
        st.tuples(st.just("end_prepared"), _place, _ends),
        st.tuples(st.just("reshape")),
    ),
    max_size=40,
)


def played(steps: list[tuple[object, ...]]) -> Server:
    """A server that did this."""
    server = Server()
    for name, *arguments in steps:
        step: Callable[..., None] = getattr(server, str(name))
        step(*arguments)
    return server


NEWER_BETWEEN = [("begin",), ("block", 0, [1]), ("reshape",), ("transaction", [1]), ("end", 0, "commit")]
KNOWN_BEFORE = [("transaction", [1]), ("prepare", [1]), ("reshape",), ("transaction", [1])]
SAVEPOINT = [("savepoint", 0), ("block", 0, [1, 2]), ("roll_back_to", 0)]
ROLLED_BACK = [("begin",), ("block", 0, [1]), *SAVEPOINT, ("block", 0, [1])]


@given(steps=STEPS)
@example(steps=[*NEWER_BETWEEN, ("transaction", [1])])  # the block's columns are older than what is known
@example(steps=[*KNOWN_BEFORE, ("end_prepared", 0, "commit"), ("transaction", [1])])  # announced before the prepare
@example(steps=[("begin",), ("block", 0, [1]), ("reshape",), ("block", 0, [1]), ("end", 0, "commit")])
@example(steps=[*ROLLED_BACK, ("end", 0, "commit"), ("transaction", [1])])
@example(steps=[*ROLLED_BACK, ("end", 0, "prepare"), ("end_prepared", 0, "commit")])
@settings(max_examples=examples(200), deadline=None)
def test_whatever_comes_in_whatever_order_only_what_is_committed_gets_out(
    steps: list[tuple[object, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """I4: in the order of commits, with the columns that each change was made with."""
    server = played(steps)
    spool = Spool(Settings(producer=Producer(spool_dir=str(tmp_path_factory.getbasetemp()))))
    session = Session(spool)
    for payload in server.payloads:
        session.receive(payload)

    assert session.committed == server.committed
    assert session.pending.prepared_count == len(server.prepared)
    assert session.pending.oldest_prepared_lsn == min((lsn for _, lsn in server.prepared.values()), default=None)
    spool.clear()
    assert spool.byte_count == 0
    spool.close()


@given(steps=STEPS, data=st.data())
@settings(max_examples=examples(200), deadline=None)
def test_damaged_streams_end_in_words_and_in_nothing_else(
    steps: list[tuple[object, ...]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """I7: messages lost, repeated, out of order, cut or changed: a value, or an error of the protocol."""
    payloads = list(played(steps).payloads)
    for _ in range(data.draw(st.integers(1, 3))):
        if payloads:
            at = data.draw(st.integers(0, len(payloads) - 1))
            damage(payloads, at, data.draw(st.sampled_from("lrsct")), data.draw(st.integers(0, 255)))
    spool = Spool(Settings(producer=Producer(spool_dir=str(tmp_path_factory.getbasetemp()))))
    session = Session(spool)
    with contextlib.suppress(ProtocolError, OperatorError):
        for payload in payloads:
            session.receive(payload)
    spool.close()


def damage(payloads: list[bytes], at: int, kind: str, value: int) -> None:
    payload = payloads[at]
    if kind == "l":
        del payloads[at]
    elif kind == "r":
        payloads.insert(at, payload)
    elif kind == "s":
        payloads.insert(value % len(payloads), payloads.pop(at))
    elif kind == "c":
        payloads[at] = payload[: value % (len(payload) + 1)]
    else:
        place = value % max(1, len(payload))  # an earlier cut may have left nothing of it
        payloads[at] = payload[:place] + bytes([value]) + payload[place + 1 :]
