"""Generators of what Postgres sends: messages, tuples, LSNs."""

from hypothesis import strategies as st

from producer.pgoutput.messages import (
    Begin,
    Commit,
    Delete,
    Field,
    Insert,
    Message,
    Origin,
    Relation,
    RelationColumn,
    Truncate,
    Type,
    Unsent,
    Update,
)
from schemas.position import Lsn
from tests.producer.pgoutput.encoder import tuple_data
from tests.schemas.strategies import INT_32, pg_names

LSNS = st.integers(0, 2**64 - 1).map(Lsn)
OIDS = st.integers(0, 2**32 - 1)
TIMES_US = st.integers(-(2**62), 2**62)
FIELDS: st.SearchStrategy[Field] = st.sampled_from(Unsent) | st.binary(max_size=40)
TUPLES = st.lists(FIELDS, max_size=12)
TUPLE_BYTES = TUPLES.map(lambda fields: tuple_data(*fields))
_COLUMNS = st.builds(RelationColumn, st.booleans(), pg_names(), OIDS, INT_32)

MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Begin, LSNS, TIMES_US, OIDS),
    st.builds(Commit, LSNS, LSNS, TIMES_US),
    st.builds(Origin, LSNS, pg_names()),
    st.builds(
        Relation, OIDS, pg_names(), pg_names(), st.sampled_from("dnfi"), st.lists(_COLUMNS, max_size=5).map(tuple)
    ),
    st.builds(Type, OIDS, pg_names(), pg_names()),
    st.builds(Insert, OIDS, TUPLE_BYTES),
    st.builds(Update, OIDS, st.none() | TUPLE_BYTES, st.none(), TUPLE_BYTES),
    st.builds(Update, OIDS, st.none(), TUPLE_BYTES, TUPLE_BYTES),
    st.builds(Delete, OIDS, TUPLE_BYTES, st.none()),
    st.builds(Delete, OIDS, st.none(), TUPLE_BYTES),
    st.builds(Truncate, st.booleans(), st.booleans(), st.lists(OIDS, max_size=8).map(tuple)),
)
