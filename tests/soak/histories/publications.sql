-- history: publications are altered in the transaction that writes rows, from 15 on
CREATE TABLE t (id int PRIMARY KEY, a int, b text);
CREATE TABLE u (id int PRIMARY KEY, a int, b text);
ALTER TABLE t REPLICA IDENTITY FULL;
INSERT INTO t VALUES (1, 1, 'one'), (2, 9, 'two');
INSERT INTO u SELECT * FROM t;
CREATE PUBLICATION in_transaction FOR TABLE t, u;
-- step
BEGIN;
INSERT INTO t VALUES (3, 3, 'before'), (4, 9, 'before');
ALTER PUBLICATION in_transaction SET TABLE t WHERE (a > 5), u;
INSERT INTO t VALUES (5, 1, 'behind'), (6, 9, 'behind');
UPDATE t SET a = 10 - a;
INSERT INTO u VALUES (3, 3, 'other');
COMMIT;
-- step
BEGIN;
SAVEPOINT s;
ALTER PUBLICATION in_transaction DROP TABLE u;
INSERT INTO u VALUES (5, 5, 'rolled back');
ROLLBACK TO s;
INSERT INTO u VALUES (6, 6, 'stays');
COMMIT;
-- step
BEGIN;
DELETE FROM t WHERE id = 1;
ALTER PUBLICATION in_transaction SET TABLE u;
INSERT INTO t VALUES (7, 9, 'outside');
ALTER PUBLICATION in_transaction SET TABLE t, u;
INSERT INTO t VALUES (8, 1, 'inside again');
COMMIT;
-- step
BEGIN;
ALTER PUBLICATION in_transaction SET (publish = 'insert');
DELETE FROM u WHERE id = 1;
ALTER PUBLICATION in_transaction SET (publish = 'insert, update, delete, truncate');
UPDATE u SET a = a + 1;
COMMIT;
-- step
BEGIN;
TRUNCATE u;
ALTER PUBLICATION in_transaction DROP TABLE u;
INSERT INTO u VALUES (1, 1, 'after truncate');
ALTER PUBLICATION in_transaction ADD TABLE u (id, b);
INSERT INTO u VALUES (2, 2, 'after truncate');
COMMIT;

-- history: the list of a publication becomes empty and is filled again, from 15 on
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE u (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a');
INSERT INTO u VALUES (1, 'a');
CREATE PUBLICATION emptied FOR TABLE t, u;
-- step
ALTER PUBLICATION emptied DROP TABLE t, u;
INSERT INTO t VALUES (2, 'unseen');
INSERT INTO u VALUES (2, 'unseen');
-- step
DELETE FROM u WHERE id = 1;
ALTER PUBLICATION emptied ADD TABLE u;
UPDATE t SET v = 'still unseen';
-- step
TRUNCATE t;
INSERT INTO t VALUES (3, 'seen');
ALTER PUBLICATION emptied ADD TABLES IN SCHEMA {schema};
INSERT INTO u VALUES (3, 'seen');
-- step
ALTER PUBLICATION emptied DROP TABLES IN SCHEMA {schema};
INSERT INTO t VALUES (4, 'by schema no more');
INSERT INTO u VALUES (4, 'by name');
-- step
ALTER PUBLICATION emptied DROP TABLE u;
DELETE FROM u;
ALTER PUBLICATION emptied SET TABLES IN SCHEMA {schema};
INSERT INTO t VALUES (5, 'end');

-- history: a published schema gets another name and owner, from 15 on
CREATE SCHEMA {schema}_a;
CREATE TABLE {schema}_a.t (id int PRIMARY KEY, v text);
INSERT INTO {schema}_a.t VALUES (1, 'a');
CREATE PUBLICATION of_schema FOR TABLES IN SCHEMA {schema}_a;
-- step
ALTER SCHEMA {schema}_a RENAME TO {schema}_b;
INSERT INTO {schema}_b.t VALUES (2, 'b');
-- step
CREATE SCHEMA {schema}_a;
CREATE TABLE {schema}_a.t (id int PRIMARY KEY, v text);
INSERT INTO {schema}_a.t VALUES (1, 'another, not published');
INSERT INTO {schema}_b.t VALUES (3, 'b');
-- step
ALTER SCHEMA {schema}_a RENAME TO {schema}_c;
ALTER SCHEMA {schema}_b RENAME TO {schema}_a;
ALTER SCHEMA {schema}_c RENAME TO {schema}_b;
INSERT INTO {schema}_a.t VALUES (4, 'a');
INSERT INTO {schema}_b.t VALUES (4, 'another');
-- step
ALTER SCHEMA {schema}_a OWNER TO pg_monitor;
ALTER TABLE {schema}_a.t OWNER TO pg_monitor;
UPDATE {schema}_a.t SET v = 'of another owner' WHERE id = 1;
-- step
ALTER PUBLICATION of_schema SET TABLES IN SCHEMA {schema}_a, {schema}_b;
DELETE FROM {schema}_b.t WHERE id = 1;
-- step
DROP SCHEMA {schema}_b CASCADE;
CREATE SCHEMA {schema}_b;
CREATE TABLE {schema}_b.t (id int PRIMARY KEY, v int);
INSERT INTO {schema}_a.t VALUES (5, 'end');

-- history: a root and a leaf are published with other filters and by other options, from 15 on
CREATE TABLE p (id int PRIMARY KEY, a int) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
INSERT INTO p SELECT i, i % 3 FROM generate_series(0, 18, 2) i;
CREATE PUBLICATION of_root FOR TABLE p WHERE (id > 5) WITH (publish_via_partition_root = true);
CREATE PUBLICATION of_leaf FOR TABLE p1 WHERE (id < 3);
-- step
INSERT INTO p VALUES (1, 1), (7, 1), (11, 1);
UPDATE p SET id = 13 WHERE id = 0;
UPDATE p SET id = 3 WHERE id = 12;
-- step
ALTER PUBLICATION of_leaf SET (publish_via_partition_root = true);
INSERT INTO p VALUES (5, 2), (9, 2), (15, 2);
-- step
BEGIN;
ALTER PUBLICATION of_root SET TABLE p;
INSERT INTO p VALUES (0, 3);
ALTER PUBLICATION of_root SET (publish_via_partition_root = false);
INSERT INTO p VALUES (17, 3);
COMMIT;
UPDATE p SET a = a + 1 WHERE id IN (1, 11);
-- step
ALTER PUBLICATION of_leaf SET (publish_via_partition_root = false);
DELETE FROM p WHERE id IN (2, 14);
-- step
ALTER PUBLICATION of_root SET (publish_via_partition_root = true);
UPDATE p SET id = 19 WHERE id = 4;
-- step
ALTER TABLE p DETACH PARTITION p1;
INSERT INTO p1 VALUES (2, 9), (4, 9);
INSERT INTO p VALUES (14, 9);
-- step
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10);
UPDATE p SET a = -a;
-- step
ALTER PUBLICATION of_root DROP TABLE p;
UPDATE p SET id = 12 WHERE id = 6;
UPDATE p SET a = 7;
-- step
TRUNCATE p;
INSERT INTO p VALUES (1, 1), (12, 1);
ALTER PUBLICATION of_root ADD TABLE p WHERE (id <> 12);
INSERT INTO p VALUES (0, 1), (13, 1);

-- history: a table goes from one publication to another and is in both for a while, from 15 on
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE u (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, 'v' FROM generate_series(1, 9) i;
CREATE PUBLICATION one FOR TABLE t, u;
CREATE PUBLICATION two FOR TABLE u;
-- step
BEGIN;
INSERT INTO t VALUES (10, 'one');
ALTER PUBLICATION one DROP TABLE t;
INSERT INTO t VALUES (11, 'none');
ALTER PUBLICATION two ADD TABLE t;
INSERT INTO t VALUES (12, 'two');
COMMIT;
-- step
ALTER PUBLICATION one ADD TABLE t;
INSERT INTO t VALUES (13, 'both');
ALTER PUBLICATION two DROP TABLE t;
INSERT INTO t VALUES (14, 'one');
-- step
ALTER PUBLICATION one SET TABLE t WHERE (id > 5), u;
ALTER PUBLICATION two SET TABLE t WHERE (id < 3), u;
UPDATE t SET id = 100 - id WHERE id IN (2, 8, 4);
-- step
ALTER PUBLICATION two SET TABLE u;
ALTER PUBLICATION one SET TABLE t, u;
DELETE FROM t WHERE id > 95;
-- step
ALTER PUBLICATION two OWNER TO pg_monitor;
ALTER TABLE t OWNER TO pg_monitor;
INSERT INTO t VALUES (30, 'of another owner');
INSERT INTO u VALUES (30, 'u');

-- history: names hold dots and quotes and have 63 bytes, from 15 on
CREATE SCHEMA "{schema}.a";
CREATE TABLE "a.b" (id int PRIMARY KEY, "v.ä""" int);
CREATE TABLE "{schema}.a".b (id int PRIMARY KEY, "v.ä""" int);
CREATE TABLE "äääääääääääääääääääääääääääääää1" (id int PRIMARY KEY, "ßßßßßßßßßßßßßßßßßßßßßßßßßßßßßßß2" int);
INSERT INTO "a.b" VALUES (1, 1), (2, 9);
INSERT INTO "{schema}.a".b VALUES (3, 3);
INSERT INTO "äääääääääääääääääääääääääääääää1" VALUES (1, 1);
CREATE PUBLICATION "p.ub ""q"", ä" FOR TABLE "a.b", "{schema}.a".b, "äääääääääääääääääääääääääääääää1";
-- step
INSERT INTO "a.b" VALUES (3, 9);
INSERT INTO "{schema}.a".b VALUES (4, 4);
UPDATE "äääääääääääääääääääääääääääääää1" SET "ßßßßßßßßßßßßßßßßßßßßßßßßßßßßßßß2" = 2;
-- step
ALTER TABLE "a.b" REPLICA IDENTITY FULL;
ALTER PUBLICATION "p.ub ""q"", ä" SET TABLE "a.b" WHERE ("v.ä""" > 5), "{schema}.a".b (id, "v.ä"""), "äääääääääääääääääääääääääääääää1";
INSERT INTO "a.b" VALUES (4, 1), (5, 9);
-- step
ALTER TABLE "a.b" RENAME TO "a.b ""c""";
ALTER TABLE "{schema}.a".b RENAME TO "b ""c""";
DELETE FROM "a.b ""c""" WHERE id = 2;
-- step
ALTER SCHEMA "{schema}.a" RENAME TO "{schema}.""ü""";
UPDATE "{schema}.""ü"""."b ""c""" SET "v.ä""" = 5 WHERE id = 3;
ALTER TABLE "äääääääääääääääääääääääääääääää1" RENAME COLUMN "ßßßßßßßßßßßßßßßßßßßßßßßßßßßßßßß2" TO "v.""";
INSERT INTO "äääääääääääääääääääääääääääääää1" VALUES (2, 2);
