-- history: names of the key differ only by case and signs
CREATE TABLE t ("a.b" int, "A.B" int, "a b" text, "`" text, "é" text, "😀" int, PRIMARY KEY ("a.b", "A.B", "`"));
INSERT INTO t VALUES (1, 2, 'x', '`', 'é', 5), (2, 1, 'y', '``', 'è', 6);
CREATE TABLE s ("sixty-three bytes of a name that goes on and on, up to the limit" int PRIMARY KEY, "sixty-three bytes of a name that goes on and on, up to the lim_" text, "Id" int, id int, "ID" int, "iD" int);
INSERT INTO s VALUES (1, 'a', 1, 2, 3, 4);
-- step
UPDATE t SET "a.b" = "A.B", "A.B" = "a.b";
UPDATE t SET "😀" = 7 WHERE "`" = '``';
UPDATE s SET "Id" = 10, "iD" = 40;
-- step
ALTER TABLE t RENAME "a.b" TO x;
ALTER TABLE t RENAME "A.B" TO "a.b";
ALTER TABLE t RENAME x TO "A.B";
ALTER TABLE s RENAME id TO x;
ALTER TABLE s RENAME "ID" TO id;
ALTER TABLE s RENAME x TO "ID";
INSERT INTO s VALUES (2, 'b', 1, 2, 3, 4);
-- step
DELETE FROM t WHERE "a.b" = 2;
ALTER TABLE t ADD "A B" text DEFAULT 'a b';
ALTER TABLE t ADD "é " int DEFAULT 1, ADD "=" int DEFAULT 2, ADD "a,b;{}()" int DEFAULT 3;
-- step
UPDATE t SET "A B" = "a b", "=" = 5;
INSERT INTO t ("a.b", "A.B", "`") VALUES (8, 9, 'ü');
ALTER TABLE t DROP "a b";
ALTER TABLE t RENAME "A B" TO "a b";
DELETE FROM s WHERE "sixty-three bytes of a name that goes on and on, up to the limit" = 1;

-- history: keys with values that no date and no number has, from 15 on
CREATE TABLE t (at timestamptz, n numeric, d date, PRIMARY KEY (at, n, d));
INSERT INTO t VALUES ('infinity', 'NaN', '-infinity'), ('0044-03-15 12:00:00+00 BC', 1e40, '0001-01-01 BC'), ('294276-12-31 23:59:59.999999+00', -0.0, '5874897-12-31'), ('2000-01-01 00:00:00+00', 1.10, '2000-01-01');
CREATE TABLE f (x float8, y float4, v text, PRIMARY KEY (x, y));
INSERT INTO f VALUES ('NaN', 'NaN', 'n'), ('-infinity', 'infinity', 'i'), (0, '-0', 'z'), ('5e-324', '1e-45', 's'), (0.1, 0.1, 't');
CREATE TABLE m (n numeric(4, -2) PRIMARY KEY, v text);
INSERT INTO m VALUES (1234, 'a'), (99, 'b');
-- step
UPDATE t SET n = 1.100 WHERE n = 1.1;
UPDATE t SET at = '-infinity' WHERE n = 'NaN';
UPDATE t SET d = 'infinity' WHERE n = 0;
UPDATE f SET x = '-0', v = 'minus' WHERE x = 0;
UPDATE f SET y = 0 WHERE y = 0;
UPDATE m SET n = 1250 WHERE v = 'a';
-- step
DELETE FROM t WHERE n = 'NaN';
INSERT INTO t VALUES ('infinity', 'NaN', '-infinity');
UPDATE f SET v = v || '!';
ALTER TABLE m ALTER n TYPE numeric(6, -2);
-- step
DELETE FROM f WHERE x = 'NaN';
INSERT INTO f VALUES ('NaN', 'NaN', 'again');
UPDATE m SET n = 123456 WHERE v = 'b';
ALTER TABLE m ALTER n TYPE numeric;
UPDATE m SET n = n + 0.50;

-- history: arrays, composites and domains over each other are the key, from 14 on
CREATE TYPE pair AS (a numeric, b text);
CREATE DOMAIN positive AS pair CHECK ((VALUE).a > 0 OR VALUE IS NULL);
CREATE DOMAIN several AS positive[];
CREATE TABLE t (k several PRIMARY KEY, v int);
INSERT INTO t VALUES (ARRAY[ROW(1.0, 'x')]::pair[]::positive[], 1), (ARRAY[NULL, ROW(2, NULL)]::pair[]::positive[], 2), ('{}', 3), ('[5:6]={"(1,)","(2,\"a,b\")"}', 4);
CREATE TABLE b (k int[] PRIMARY KEY, m int4multirange, v int);
INSERT INTO b VALUES ('[0:1]={1,2}', '{[1,5),[7,9)}', 1), ('{1,2}', '{}', 2), ('{{1},{2}}', NULL, 3), ('{}', '{(,)}', 4);
-- step
UPDATE t SET k = ARRAY[ROW(1.00, 'x')]::pair[]::positive[] WHERE v = 1;
UPDATE t SET v = v + 10;
UPDATE b SET k = '[0:2]={1,2,3}' WHERE v = 1;
-- step
ALTER TYPE pair ADD ATTRIBUTE c int;
INSERT INTO t VALUES (ARRAY[ROW(9, 'n', 1)]::pair[]::positive[], 99);
-- step
DELETE FROM t WHERE v = 12;
DELETE FROM b WHERE k = '{1,2}';
UPDATE b SET k = '{1,2}' WHERE v = 3;

-- history: identities that are exchanged while rows change in one transaction
CREATE TABLE t (id int PRIMARY KEY, u int NOT NULL, v text, n int);
CREATE UNIQUE INDEX tu ON t (u);
ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
INSERT INTO t SELECT g, -g, repeat('v', 4000), 0 FROM generate_series(1, 8) g;
-- step
BEGIN;
UPDATE t SET u = u - 100 WHERE id = 1;
ALTER TABLE t REPLICA IDENTITY USING INDEX tu;
UPDATE t SET u = u - 100 WHERE id = 2;
ALTER TABLE t REPLICA IDENTITY FULL;
UPDATE t SET id = 30, u = 30 WHERE id = 3;
ALTER TABLE t REPLICA IDENTITY DEFAULT;
UPDATE t SET n = 5 WHERE id = 4;
COMMIT;
-- step
BEGIN;
ALTER TABLE t REPLICA IDENTITY USING INDEX tu;
SAVEPOINT a;
ALTER TABLE t REPLICA IDENTITY FULL;
UPDATE t SET id = 50 WHERE id = 5;
ROLLBACK TO a;
UPDATE t SET u = 60 WHERE id = 6;
COMMIT;
-- step
UPDATE t SET id = id + 1000 WHERE id < 20;
-- step
ALTER TABLE t REPLICA IDENTITY FULL;
UPDATE t SET u = u + 5000, n = n + 1;
-- step
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ADD PRIMARY KEY (u);
INSERT INTO t VALUES (30, 1, 'equal id', 0);
UPDATE t SET v = 'short' WHERE id = 30;
