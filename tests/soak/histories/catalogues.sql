-- history: the catalogue is vacuumed between DDL
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a int, m mood);
CREATE TABLE t (id int PRIMARY KEY, m mood, p pair, v text);
CREATE TABLE r (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 PARTITION OF r FOR VALUES FROM (10) TO (20);
INSERT INTO t VALUES (1, 'sad', '(1,sad)', 'a'), (2, 'ok', NULL, 'b');
INSERT INTO r VALUES (1, 'a'), (11, 'b');
-- step
ALTER TABLE t ADD c int DEFAULT 5;
ALTER TYPE mood ADD VALUE 'great';
INSERT INTO t VALUES (3, 'ok', '(3,ok)', 'c', 6);
-- step
VACUUM FULL pg_class;
-- step
ALTER TABLE t RENAME v TO w;
ALTER TABLE r ADD n int DEFAULT 3;
-- step
VACUUM FULL pg_attribute;
-- step
INSERT INTO t VALUES (4, 'great', '(4,great)', 'd', 7);
ALTER TYPE mood RENAME VALUE 'sad' TO 'low';
-- step
VACUUM FULL pg_enum;
-- step
INSERT INTO r VALUES (2, 'c', 4);
ALTER TABLE r DETACH PARTITION r2;
INSERT INTO r2 VALUES (12, 'alone', 4);
-- step
VACUUM FULL pg_inherits;
-- step
ALTER TYPE pair ADD ATTRIBUTE z text;
ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20);
-- step
VACUUM FULL pg_type;
-- step
INSERT INTO t VALUES (5, 'low', '(5,low,z)', 'e', 8);
ALTER TABLE t DROP c;
ALTER TABLE t ADD c int DEFAULT 9;
-- step
VACUUM FREEZE pg_attribute;
-- step
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ADD PRIMARY KEY (id);
UPDATE t SET w = 'u' WHERE id = 1;
-- step
VACUUM FULL pg_constraint;
-- step
ALTER TABLE t REPLICA IDENTITY FULL;
DELETE FROM t WHERE id = 2;
-- step
VACUUM FULL pg_index;
-- step
UPDATE t SET id = id + 10;
UPDATE r SET v = v || '!';

-- history: tables are altered while the catalogue is vacuumed by another history
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE t (id int PRIMARY KEY, a int, m mood);
CREATE TABLE f (a int, m mood);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO t VALUES (1, 1, 'sad'), (2, 2, 'ok');
INSERT INTO f VALUES (1, 'sad'), (1, 'sad');
-- step
INSERT INTO t VALUES (3, 3, 'sad');
-- step
ALTER TYPE mood RENAME VALUE 'sad' TO 'low';
INSERT INTO t VALUES (4, 4, 'low');
-- step
UPDATE f SET a = 2 WHERE ctid = (SELECT min(ctid) FROM f);
-- step
ALTER TABLE t RENAME a TO b;
ALTER TABLE f ADD x int DEFAULT 7;
-- step
ALTER TYPE mood ADD VALUE 'top' BEFORE 'low';
-- step
INSERT INTO t VALUES (5, 5, 'top');
INSERT INTO f VALUES (3, 'top', 8);
-- step
ALTER TABLE t ALTER b TYPE bigint;
-- step
ALTER TYPE mood RENAME VALUE 'top' TO 'best';
DELETE FROM f WHERE x = 8;
-- step
ALTER TABLE t DROP b, ADD b bigint DEFAULT 4;
-- step
INSERT INTO t VALUES (6, 'best', 6);
-- step
ALTER TABLE f DROP x;
ALTER TABLE f ADD x int DEFAULT 9;
-- step
UPDATE f SET m = 'best' WHERE a = 1;

-- history: one statement makes a schema with its tables, and one drops several
SELECT 1;
-- step
CREATE SCHEMA {schema}_a CREATE TABLE t (id int PRIMARY KEY, v text) CREATE TABLE u (id int PRIMARY KEY, n int DEFAULT 4) CREATE VIEW w AS SELECT id FROM t;
INSERT INTO {schema}_a.t VALUES (1, 'a');
INSERT INTO {schema}_a.u VALUES (1);
-- step
BEGIN;
SAVEPOINT one;
DROP TABLE {schema}_a.t, {schema}_a.u CASCADE;
CREATE TABLE {schema}_a.t (id int PRIMARY KEY);
INSERT INTO {schema}_a.t VALUES (9);
ROLLBACK TO one;
INSERT INTO {schema}_a.t VALUES (2, 'kept');
DROP TABLE {schema}_a.u;
CREATE TABLE {schema}_a.u (n int PRIMARY KEY, id int DEFAULT 5);
INSERT INTO {schema}_a.u VALUES (2);
COMMIT;
-- step
UPDATE {schema}_a.t SET v = 'b';
ALTER SCHEMA {schema}_a RENAME TO {schema}_b;
INSERT INTO {schema}_b.u VALUES (3);

-- history: tables, partitions and indexes move to another tablespace, from 15 on
CREATE EXTENSION IF NOT EXISTS dblink SCHEMA public;
SELECT public.dblink_exec(format('host=127.0.0.1 port=%s user=%s dbname=%s options=''-c allow_in_place_tablespaces=on''', current_setting('port'), current_user, current_database()), $$CREATE TABLESPACE in_place LOCATION ''$$, false);
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE s (id int PRIMARY KEY, n int);
CREATE TABLE f (n int);
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE TABLE r (id int PRIMARY KEY, n int) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 PARTITION OF r FOR VALUES FROM (10) TO (20);
INSERT INTO t VALUES (1, 'a'), (2, 'b');
INSERT INTO s VALUES (1, 1), (2, 2);
INSERT INTO f VALUES (1), (1), (2);
INSERT INTO r VALUES (1, 1), (11, 11);
-- step
ALTER TABLE t SET TABLESPACE in_place;
INSERT INTO t VALUES (3, 'c');
ALTER TABLE s SET TABLESPACE in_place;
-- step
BEGIN;
UPDATE t SET v = 'before' WHERE id = 1;
ALTER TABLE t ADD c int DEFAULT 4;
ALTER TABLE t SET TABLESPACE pg_default;
SAVEPOINT one;
ALTER TABLE s SET TABLESPACE pg_default;
ALTER TABLE s ADD c int DEFAULT 5;
DELETE FROM s WHERE id = 1;
ROLLBACK TO one;
INSERT INTO s VALUES (3, 3);
ALTER TABLE f SET TABLESPACE in_place;
DELETE FROM f WHERE ctid = (SELECT min(ctid) FROM f);
COMMIT;
-- step
ALTER INDEX t_pkey SET TABLESPACE in_place;
ALTER TABLE r1 SET TABLESPACE in_place;
CREATE TABLE n (id int PRIMARY KEY) TABLESPACE in_place;
INSERT INTO n VALUES (1);
UPDATE r SET id = 12 WHERE id = 1;
-- step
BEGIN;
TRUNCATE s;
INSERT INTO s VALUES (9, 9);
ALTER TABLE s SET TABLESPACE pg_default;
ALTER TABLE r SET TABLESPACE in_place;
CREATE TABLE r3 PARTITION OF r FOR VALUES FROM (20) TO (30);
INSERT INTO r VALUES (21, 21);
COMMIT;
-- step
UPDATE f SET n = 3;
UPDATE r SET n = 0;
