-- history: columns in a list and beside it exchange their names, from 15 on
CREATE TABLE t (id int PRIMARY KEY, a int, b text, c int DEFAULT 3);
INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two');
CREATE PUBLICATION listed FOR TABLE t (id, a);
-- step
INSERT INTO t VALUES (3, 3, 'three');
ALTER TABLE t RENAME a TO x;
ALTER TABLE t RENAME b TO a;
ALTER TABLE t RENAME x TO b;
INSERT INTO t (id, a, b) VALUES (4, 'four', 4);
-- step
ALTER TABLE t ADD d int DEFAULT 4;
UPDATE t SET b = b + 1, d = 9 WHERE id = 1;
-- step
ALTER PUBLICATION listed SET TABLE t (id, a, c);
INSERT INTO t (id, a, b) VALUES (5, 'five', 5);
-- step
ALTER TABLE t DROP c CASCADE;
INSERT INTO t (id, a, b) VALUES (6, 'six', 6);
-- step
ALTER PUBLICATION listed ADD TABLE t (id, b, d);
INSERT INTO t (id, a, b) VALUES (7, 'seven', 7);
ALTER TABLE t ALTER a TYPE text USING a || '!';
-- step
ALTER TABLE t DROP a;
ALTER TABLE t ADD a int DEFAULT 11;
UPDATE t SET b = 0 WHERE id = 2;
-- step
ALTER PUBLICATION listed SET TABLE t;
ALTER TABLE t ALTER d SET DEFAULT 5;
INSERT INTO t (id, b) VALUES (8, 8);

-- history: rows enter and leave what a filter lets through, from 15 on
CREATE TYPE mood AS ENUM ('sad', 'ok', 'fine');
CREATE TABLE t (id int PRIMARY KEY, m mood, n numeric, v text);
ALTER TABLE t REPLICA IDENTITY FULL;
INSERT INTO t SELECT g, (ARRAY['sad', 'ok', 'fine'])[g % 3 + 1]::mood, CASE WHEN g % 4 = 0 THEN 'NaN'::numeric ELSE g END, 'v' FROM generate_series(1, 12) g;
CREATE PUBLICATION filtered FOR TABLE t WHERE (n > 5);
-- step
UPDATE t SET n = 10 - n;
-- step
UPDATE t SET id = id + 100 WHERE n > 3;
-- step
ALTER TABLE t RENAME n TO k;
ALTER TABLE t RENAME v TO n;
UPDATE t SET k = 6, n = 'in';
-- step
ALTER PUBLICATION filtered SET TABLE t WHERE (k > 5 AND n IS NOT NULL);
UPDATE t SET n = NULL WHERE id % 2 = 0;
-- step
TRUNCATE t;
INSERT INTO t VALUES (1, 'ok', 7, 'x'), (2, 'ok', 1, 'x');
UPDATE t SET k = 8 - k;

-- history: tables and partitions move in and out of a published schema, from 15 on
CREATE SCHEMA {schema}_b;
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE r (id int NOT NULL, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE {schema}_b.r2 PARTITION OF r FOR VALUES FROM (10) TO (20);
CREATE TABLE {schema}_b.q (id int NOT NULL, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE q1 PARTITION OF {schema}_b.q FOR VALUES FROM (0) TO (10);
CREATE TABLE {schema}_b.q2 PARTITION OF {schema}_b.q FOR VALUES FROM (10) TO (20);
INSERT INTO t VALUES (1, 'a');
INSERT INTO r VALUES (1, 'a'), (11, 'b');
INSERT INTO {schema}_b.q VALUES (1, 'a'), (11, 'b');
CREATE PUBLICATION in_schema FOR TABLES IN SCHEMA {schema} WITH (publish_via_partition_root = true);
-- step
INSERT INTO r VALUES (2, 'c'), (12, 'd');
INSERT INTO {schema}_b.q VALUES (2, 'c'), (12, 'd');
UPDATE r SET id = 13 WHERE id = 2;
UPDATE {schema}_b.q SET id = 13 WHERE id = 2;
-- step
ALTER TABLE r1 SET SCHEMA {schema}_b;
ALTER TABLE {schema}_b.q2 SET SCHEMA {schema};
INSERT INTO r VALUES (3, 'moved');
INSERT INTO {schema}_b.q VALUES (14, 'moved');
-- step
BEGIN;
INSERT INTO t VALUES (2, 'before');
ALTER TABLE t SET SCHEMA {schema}_b;
INSERT INTO {schema}_b.t VALUES (3, 'outside');
SAVEPOINT a;
DELETE FROM {schema}_b.t WHERE id = 1;
ROLLBACK TO a;
ALTER TABLE {schema}_b.t SET SCHEMA {schema};
INSERT INTO t VALUES (4, 'inside');
COMMIT;
-- step
ALTER TABLE {schema}_b.q SET SCHEMA {schema};
UPDATE q SET v = v || '!';
UPDATE q SET id = 9 WHERE id = 13;
-- step
ALTER TABLE r SET SCHEMA {schema}_b;
UPDATE {schema}_b.r SET v = v || '?';
ALTER TABLE {schema}_b.r1 SET SCHEMA {schema};
-- step
DELETE FROM {schema}_b.r WHERE id = 1;
ALTER TABLE {schema}_b.r SET SCHEMA {schema};
INSERT INTO r VALUES (4, 'back');
-- step
ALTER TABLE r DETACH PARTITION r1;
ALTER TABLE q DETACH PARTITION q1;
UPDATE r1 SET v = 'own';
UPDATE q1 SET v = 'own';
-- step
ALTER SCHEMA {schema}_b RENAME TO {schema}_c;
ALTER PUBLICATION in_schema ADD TABLES IN SCHEMA {schema}_c;
INSERT INTO r VALUES (15, 'end');
