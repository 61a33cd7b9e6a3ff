-- history: labels are renamed by another session while rows wait for their commit
CREATE EXTENSION IF NOT EXISTS dblink SCHEMA public;
CREATE FUNCTION other(said text) RETURNS text LANGUAGE sql AS $f$ SELECT public.dblink_exec(format('host=127.0.0.1 port=%s user=%s dbname=%s options=''-c search_path={schema},public -c lock_timeout=5s''', current_setting('port'), current_user, current_database()), said) $f$;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (m mood, n int);
CREATE TABLE t (id int PRIMARY KEY, m mood, ms mood[], p pair);
CREATE TABLE k (m mood PRIMARY KEY, n int);
INSERT INTO t VALUES (1, 'sad', '{sad}', '(sad,1)'), (2, 'ok', NULL, NULL);
INSERT INTO k VALUES ('sad', 1), ('ok', 2);
-- step
BEGIN;
INSERT INTO t VALUES (3, 'sad', '{sad}', '(sad,3)');
SELECT other($$ALTER TYPE mood RENAME VALUE 'sad' TO 'low'$$);
INSERT INTO t VALUES (4, 'low', '{low,ok}', '(low,4)');
UPDATE k SET n = n + 1;
COMMIT;
-- step
BEGIN;
DELETE FROM t WHERE id = 2;
SELECT other($$ALTER TYPE mood ADD VALUE 'high'$$);
INSERT INTO t VALUES (5, 'high', '{high}', '(high,5)');
SELECT other($$ALTER TYPE mood RENAME VALUE 'high' TO 'top'$$);
INSERT INTO t VALUES (6, 'top', '{top}', '(top,6)');
INSERT INTO k VALUES ('top', 3);
COMMIT;
-- step
BEGIN;
INSERT INTO t VALUES (7, 'top', NULL, '(top,7)');
SELECT other($$ALTER TYPE pair ADD ATTRIBUTE c text$$);
INSERT INTO t VALUES (8, 'ok', NULL, '(ok,8,eight)');
SELECT other($$ALTER TYPE pair DROP ATTRIBUTE n$$);
INSERT INTO t VALUES (9, 'ok', NULL, '(ok,nine)');
COMMIT;
-- step
UPDATE t SET m = 'ok' WHERE id = 4;

-- history: another session alters a table before an older transaction writes to it
CREATE EXTENSION IF NOT EXISTS dblink SCHEMA public;
CREATE FUNCTION other(said text) RETURNS text LANGUAGE sql AS $f$ SELECT public.dblink_exec(format('host=127.0.0.1 port=%s user=%s dbname=%s options=''-c search_path={schema},public -c lock_timeout=5s''', current_setting('port'), current_user, current_database()), said) $f$;
CREATE TABLE first (id int PRIMARY KEY);
CREATE TABLE t (id int PRIMARY KEY, v text, n int);
CREATE TABLE u (id int PRIMARY KEY, v text, n int);
CREATE TABLE k (id int PRIMARY KEY, k text NOT NULL, v text);
INSERT INTO t SELECT g, 't' || g, g FROM generate_series(1, 6) g;
INSERT INTO u SELECT g, 'u' || g, -g FROM generate_series(1, 6) g;
INSERT INTO k SELECT g, 'k' || g, 'v' FROM generate_series(1, 6) g;
-- step
BEGIN;
INSERT INTO first VALUES (1);
SELECT other('ALTER TABLE t ADD x int DEFAULT 5; INSERT INTO t VALUES (7, ''other'', 7)');
UPDATE t SET n = 0 WHERE id = 1;
INSERT INTO t VALUES (8, 'own', 8, 8);
COMMIT;
-- step
BEGIN;
INSERT INTO first VALUES (2);
SELECT other('ALTER TABLE t ALTER v TYPE text USING upper(v); UPDATE t SET v = v || ''o'' WHERE id = 2');
UPDATE t SET v = v || 'w' WHERE id IN (2, 3);
COMMIT;
-- step
BEGIN;
INSERT INTO first VALUES (3);
SELECT other('ALTER TABLE t RENAME TO x; ALTER TABLE u RENAME TO t; ALTER TABLE x RENAME TO u; INSERT INTO t VALUES (10, ''was u'', 1)');
SAVEPOINT one;
INSERT INTO t VALUES (11, 'rolled back', 1);
ROLLBACK TO one;
INSERT INTO u VALUES (12, 'was t', 1, 1);
INSERT INTO t VALUES (12, 'was u', 2);
COMMIT;
-- step
BEGIN;
INSERT INTO first VALUES (4);
SELECT other('TRUNCATE t; INSERT INTO t VALUES (1, ''new'', 1)');
UPDATE t SET v = 'newer' WHERE id = 1;
INSERT INTO t VALUES (2, 'new', 2);
COMMIT;
-- step
BEGIN;
INSERT INTO first VALUES (5);
SELECT other('DROP TABLE u; CREATE TABLE u (id int PRIMARY KEY, v text, n int); INSERT INTO u VALUES (1, ''other'', 1)');
INSERT INTO u VALUES (2, 'own', 2);
SELECT other('ALTER TABLE k DROP CONSTRAINT k_pkey; ALTER TABLE k ADD PRIMARY KEY (k); UPDATE k SET k = ''x'' WHERE id = 1');
UPDATE k SET k = 'y' WHERE id = 2;
DELETE FROM k WHERE id = 3;
INSERT INTO k VALUES (1, 'equal id', 'w');
COMMIT;
-- step
BEGIN;
INSERT INTO first VALUES (6);
SELECT other('ALTER TABLE k DROP v, ADD v text DEFAULT ''d''');
UPDATE k SET v = 'own' WHERE id = 4;
ROLLBACK;
-- step
UPDATE k SET v = 'end' WHERE id = 5;

-- history: another session alters schemas and partitions while rows wait for their commit
CREATE EXTENSION IF NOT EXISTS dblink SCHEMA public;
CREATE FUNCTION other(said text) RETURNS text LANGUAGE sql AS $f$ SELECT public.dblink_exec(format('host=127.0.0.1 port=%s user=%s dbname=%s options=''-c search_path={schema},public -c lock_timeout=5s''', current_setting('port'), current_user, current_database()), said) $f$;
CREATE SCHEMA {schema}_a;
CREATE TABLE {schema}_a.t (id int PRIMARY KEY, v text);
CREATE TABLE r (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 (v text, gone int, id int NOT NULL, PRIMARY KEY (id));
ALTER TABLE r2 DROP gone;
INSERT INTO {schema}_a.t VALUES (1, 'a');
INSERT INTO r VALUES (1, 'r'), (2, 'r');
INSERT INTO r2 (id, v) VALUES (11, 'filled'), (12, 'filled');
-- step
BEGIN;
INSERT INTO {schema}_a.t VALUES (2, 'before');
SELECT other('ALTER SCHEMA {schema}_a RENAME TO {schema}_b; CREATE SCHEMA {schema}_a; CREATE TABLE {schema}_a.t (id int PRIMARY KEY); INSERT INTO {schema}_a.t VALUES (1)');
INSERT INTO {schema}_b.t VALUES (3, 'after');
INSERT INTO {schema}_a.t VALUES (2);
COMMIT;
-- step
BEGIN;
UPDATE r SET v = 'before' WHERE id = 1;
SELECT other('ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20)');
UPDATE r SET v = v || '!' WHERE id IN (2, 11);
INSERT INTO r VALUES (13, 'new');
UPDATE r SET id = 14 WHERE id = 1;
COMMIT;
-- step
BEGIN;
INSERT INTO {schema}_b.t VALUES (4, 'first');
SELECT other('ALTER TABLE r DETACH PARTITION r2; INSERT INTO r2 (id, v) VALUES (15, ''alone'')');
UPDATE r2 SET v = 'alone' WHERE id = 12;
INSERT INTO r VALUES (3, 'r');
COMMIT;
-- step
INSERT INTO r VALUES (4, 'end');
DELETE FROM r2 WHERE id = 11;

-- history: a partition waits for the end of its detachment, from 14 on
CREATE EXTENSION IF NOT EXISTS dblink SCHEMA public;
CREATE FUNCTION other(said text) RETURNS text LANGUAGE sql AS $f$ SELECT public.dblink_exec(format('host=127.0.0.1 port=%s user=%s dbname=%s options=''-c search_path={schema},public -c lock_timeout=500ms''', current_setting('port'), current_user, current_database()), said, false) $f$;
CREATE TABLE r (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 PARTITION OF r FOR VALUES FROM (10) TO (20);
INSERT INTO r VALUES (1, 'r'), (2, 'r'), (11, 'r'), (12, 'r');
-- step
BEGIN;
INSERT INTO r VALUES (3, 'holds it up'), (13, 'holds it up');
SELECT other('ALTER TABLE r DETACH PARTITION r2 CONCURRENTLY');
INSERT INTO r VALUES (4, 'after');
COMMIT;
-- step
INSERT INTO r VALUES (5, 'pending');
-- step
ALTER TABLE r DETACH PARTITION r2 FINALIZE;
-- step
INSERT INTO r2 VALUES (15, 'alone');
UPDATE r2 SET v = 'alone' WHERE id = 11;
INSERT INTO r VALUES (6, 'r');
-- step
ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20);
UPDATE r SET v = 'end' WHERE id = 12;
