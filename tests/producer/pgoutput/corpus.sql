CREATE SCHEMA "Odd ""schéma"".1";
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s "fine"');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text);
CREATE TABLE plain (id bigint PRIMARY KEY, name text, price numeric(12, 2), at timestamptz, tags text[], big text);
ALTER TABLE plain ALTER big SET STORAGE EXTERNAL;
CREATE TABLE types (
  id int PRIMARY KEY, a bool, b smallint, c oid, d real, e double precision, f numeric, g numeric(38, 10), h varchar(9),
  i char(5), j name, k "char", l bytea, m date, n timestamp, o time, p timetz, q interval, r uuid, s json, t jsonb,
  u mood, v positive, w pair, x inet, y int4range, z mood[], aa int[], ab bool[], ac bytea[], ad numeric(6, 3)[],
  ae date[], af timestamptz[], ag float4[], ah "char"[], ai jsonb[]);
CREATE TABLE whole (id int, note text, big text);
ALTER TABLE whole REPLICA IDENTITY FULL, ALTER big SET STORAGE EXTERNAL;
CREATE TABLE indexed (id int PRIMARY KEY, code text NOT NULL UNIQUE, value int);
ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_code_key, ALTER code SET STORAGE EXTERNAL;
CREATE TABLE "Odd ""schéma"".1"."Täble {x}" ("A ""b"" \ {c}" int PRIMARY KEY, "😀" text);
CREATE TABLE keyless (line text);
CREATE TABLE nothing ();
CREATE PUBLICATION corpus FOR ALL TABLES;
SELECT FROM pg_create_logical_replication_slot('corpus_' || current_database(), 'pgoutput');
-- changes
INSERT INTO plain SELECT n, 'name ' || n, n * 1.25, '2024-05-06 07:08:09.123456+00', ARRAY['a', 'b ' || n, NULL], NULL
  FROM generate_series(1, 12) n;
INSERT INTO plain VALUES (-9223372036854775808, '', -0.01, '-infinity', '{}', repeat('long ', 500));
UPDATE plain SET name = 'é😀' || E'\t\n\\', tags = '{"q\"",\\,"NULL",NULL}' WHERE id < 3;
UPDATE plain SET price = 'NaN' WHERE big IS NOT NULL;
UPDATE plain SET id = id + 100 WHERE id > 10;
DELETE FROM plain WHERE id = 4;
INSERT INTO types VALUES
  (1, true, -32768, 4294967295, '7.038531e-26', 'NaN', '1e-30', '-1234567890123456789012345678.0123456789', 'é', 'ab',
   'name', 'x', '\x00ff10', '1969-12-31', '0001-01-01 00:00:00', '24:00:00', '12:00:00.5-15:59:59', '-1 mon 2 days -3.5 h',
   'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{ "b" : 1,  "a": [null] }', '{"b": 1e2}', 'it''s "fine"', 7, '(1,"x y")',
   '10.1.2.3/8', '[1,5)', ARRAY['sad', NULL]::mood[], '{{1,2},{3,4}}', '[0:1]={t,f}', '{"\\x01",NULL}', '{1.5,NaN}',
   '{infinity,2000-02-29}', '{"2001-02-03 04:05:06+07"}', '{1e-45,-0}', '{"",x}', '{"{}","[1, {\"a\": \"\\\"\"}]"}');
INSERT INTO types (id) VALUES (2);
UPDATE types SET m = '10000-01-01', n = '0044-03-15 12:00:00 BC', u = 'ok' WHERE id = 2;
INSERT INTO whole VALUES (1, 'one', repeat('x', 2500)), (2, NULL, NULL);
UPDATE whole SET note = 'more' WHERE id = 1;
DELETE FROM whole WHERE id = 2;
INSERT INTO indexed VALUES (1, 'a', 1), (2, repeat('k', 2100), 2);
UPDATE indexed SET value = 3;
UPDATE indexed SET code = code || '!';
DELETE FROM indexed WHERE id = 1;
INSERT INTO "Odd ""schéma"".1"."Täble {x}" VALUES (1, '😀'), (2, NULL);
INSERT INTO keyless VALUES ('a'), (NULL), ('');
INSERT INTO nothing DEFAULT VALUES;
SELECT FROM pg_replication_origin_create('elsewhere_' || current_database());
SELECT FROM pg_replication_origin_session_setup('elsewhere_' || current_database());
INSERT INTO keyless VALUES ('from elsewhere');
SELECT FROM pg_replication_origin_session_reset();
TRUNCATE keyless, indexed RESTART IDENTITY CASCADE;
TRUNCATE whole;
