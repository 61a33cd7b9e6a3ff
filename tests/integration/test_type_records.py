"""Type records say of user types what pg_type, pg_enum and pg_attribute say, and are written anew when that changes."""

from __future__ import annotations

from typing import Any

from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.schemas.control.metadata_record import TypeRecord

TYPES = """
CREATE EXTENSION hstore;
CREATE TYPE mood AS ENUM ('sad', 'it''s "fine"');
CREATE DOMAIN price AS numeric(10,2);
CREATE DOMAIN fee AS price;
CREATE TYPE leg AS (distance int, feeling mood, gone text);
ALTER TYPE leg DROP ATTRIBUTE gone;
CREATE TYPE trip AS (name text, legs leg[]);
CREATE TYPE span AS RANGE (subtype = float8);
CREATE TYPE unused AS ENUM ('a');
CREATE TABLE t (
  id int PRIMARY KEY, m mood, ms mood[], f fee, fs fee[], trip trip, s span, h hstore, built_in int4range);
"""
EXPECTED = {"mood", "_mood", "fee", "_fee", "price", "trip", "_leg", "leg", "span", "hstore"}

# Shares nothing with the producer's query but the catalogue.
ORACLE = """
SELECT t.typname, jsonb_build_object(
  'oid', t.oid::int8, 'namespace', t.typnamespace::regnamespace::text, 'name', t.typname,
  'kind', CASE WHEN EXISTS (SELECT FROM pg_type e WHERE e.typarray = t.oid) THEN 'a' ELSE t.typtype::text END,
  'enum_labels', coalesce((SELECT jsonb_agg(x) FROM unnest(enum_labels(t.oid)) x), '[]'),
  'base_type', CASE WHEN t.typbasetype <> 0 THEN t.typbasetype::int8 END,
  'element_type', coalesce((SELECT e.oid::int8 FROM pg_type e WHERE e.typarray = t.oid),
    (SELECT r.rngsubtype::int8 FROM pg_range r WHERE r.rngtypid = t.oid)),
  'fields', coalesce((SELECT jsonb_agg(jsonb_build_array(a.attname, a.atttypid::int8) ORDER BY a.attnum)
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.reltype = t.oid AND c.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped), '[]'))
FROM pg_type t WHERE t.typname = ANY (%s)
"""
ENUM_LABELS = """
CREATE FUNCTION enum_labels(oid) RETURNS name[] LANGUAGE sql STABLE AS
'SELECT array_agg(enumlabel ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = $1'
"""


def in_catalogue(database: Database) -> dict[str, dict[str, Any]]:
    return dict(database.rows(ORACLE, (sorted(EXPECTED),)))


def newest(producer: ProducerUnderTest) -> dict[str, TypeRecord]:
    """The last version of each type; versions count from 1 without a gap."""
    found: dict[str, TypeRecord] = {}
    with producer.topics() as topics:
        for record in topics.metadata():
            if isinstance(record, TypeRecord):
                name = record.facts.name
                assert record.version == (found[name].version + 1 if name in found else 1)
                found[name] = record
    return found


def facts(record: TypeRecord) -> dict[str, Any]:
    of = record.facts
    return {
        "oid": of.oid,
        "namespace": of.namespace,
        "name": of.name,
        "kind": of.kind,
        "enum_labels": list(of.enum_labels),
        "base_type": of.base_type,
        "element_type": of.element_type,
        "fields": [list(each) for each in of.fields],
    }


def test_type_records_are_what_the_catalogue_says_and_follow_it(producer: ProducerUnderTest) -> None:
    """Neither ADD VALUE nor RENAME VALUE is told in the stream: a running producer notices, a started one too."""
    database = producer.database
    database.execute(TYPES)
    database.execute(ENUM_LABELS)
    producer.publish("t")
    running = producer.start_streaming()
    found = newest(producer)
    assert {name: facts(record) for name, record in found.items()} == in_catalogue(database)
    assert {record.version for record in found.values()} == {1}
    assert found.keys() == EXPECTED

    database.execute("ALTER TYPE mood ADD VALUE 'new' BEFORE 'sad'")
    wait_until(lambda: newest(producer)["mood"].version == 2, "the new label in the metadata topic")
    assert facts(newest(producer)["mood"]) == in_catalogue(database)["mood"]

    running.stop()
    database.execute("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
    database.execute("ALTER TYPE leg ADD ATTRIBUTE price fee")
    producer.start_streaming()
    found = newest(producer)
    assert {name: facts(record) for name, record in found.items()} == in_catalogue(database)
    assert {name: record.version for name, record in found.items() if record.version > 1} == {"mood": 3, "leg": 2}
