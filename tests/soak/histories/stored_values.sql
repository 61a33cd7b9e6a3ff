-- history: values out of line under each identity
CREATE TABLE d (id int PRIMARY KEY, a text, b text, n int);
CREATE TABLE f (id int PRIMARY KEY, a text, b text, n int);
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE TABLE i (id int NOT NULL, a text, b text, n int);
CREATE UNIQUE INDEX ii ON i (id);
ALTER TABLE i REPLICA IDENTITY USING INDEX ii;
CREATE TABLE k (id int, a text, b text, n int);
ALTER TABLE k REPLICA IDENTITY FULL;
ALTER TABLE d ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTENDED;
ALTER TABLE f ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTENDED;
ALTER TABLE i ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE MAIN;
ALTER TABLE k ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTENDED;
INSERT INTO d SELECT g, repeat('a' || g, 3000), (SELECT string_agg(md5(x::text), '') FROM generate_series(1, 300) x), 0 FROM generate_series(1, 6) g;
INSERT INTO f SELECT * FROM d;
INSERT INTO i SELECT * FROM d;
INSERT INTO k SELECT * FROM d;
INSERT INTO k SELECT * FROM d;
-- step
UPDATE d SET n = n + 1;
UPDATE f SET n = n + 1;
UPDATE i SET n = n + 1;
UPDATE k SET n = n + 1;
-- step
BEGIN;
UPDATE d SET a = 'short' WHERE id = 1;
UPDATE d SET n = 9 WHERE id = 1;
UPDATE d SET a = repeat('z', 9000) WHERE id = 1;
UPDATE d SET b = NULL WHERE id = 1;
UPDATE d SET n = 10 WHERE id = 1;
UPDATE f SET a = 'short' WHERE id = 1;
UPDATE f SET a = repeat('z', 9000) WHERE id = 1;
UPDATE f SET n = 10 WHERE id = 1;
UPDATE k SET a = repeat('z', 9000) WHERE id = 1;
UPDATE k SET n = 11 WHERE id = 1;
COMMIT;
-- step
BEGIN;
DELETE FROM d WHERE id = 2;
INSERT INTO d VALUES (2, 'new', repeat('q', 9000), 1);
UPDATE d SET n = 2 WHERE id = 2;
SAVEPOINT s;
UPDATE d SET b = 'lost' WHERE id = 2;
ROLLBACK TO s;
UPDATE d SET a = a || 'er' WHERE id = 2;
COMMIT;
-- step
UPDATE f SET id = id + 10;
UPDATE f SET id = id - 10, n = 5;
-- step
UPDATE d SET a = repeat('m', 20000), id = 100 WHERE id = 3;
UPDATE i SET id = 100, a = a || '', b = b || '' WHERE id = 3;
-- step
ALTER TABLE d ADD c text DEFAULT repeat('c', 100);
UPDATE d SET n = n + 1;
ALTER TABLE d RENAME a TO x;
ALTER TABLE d RENAME b TO a;
ALTER TABLE d RENAME x TO b;
UPDATE d SET n = n + 1 WHERE id > 2;
ALTER TABLE d DROP a;
UPDATE d SET n = n + 1;
-- step
ALTER TABLE f REPLICA IDENTITY DEFAULT;
UPDATE f SET n = 77;
ALTER TABLE f REPLICA IDENTITY FULL;
UPDATE f SET n = 78 WHERE id < 4;

-- history: a row changes its key and takes it back in one transaction
CREATE TABLE t (id int PRIMARY KEY, v text, n int);
ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
ALTER TABLE t REPLICA IDENTITY FULL;
CREATE TABLE s (id int PRIMARY KEY, n int);
CREATE TABLE x (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, n int);
ALTER TABLE x REPLICA IDENTITY FULL;
INSERT INTO t SELECT g, repeat('t', 5000), g FROM generate_series(1, 6) g;
INSERT INTO s SELECT g, g FROM generate_series(1, 6) g;
INSERT INTO x SELECT g, g FROM generate_series(1, 6) g;
-- step
BEGIN;
UPDATE t SET id = 100 WHERE id = 1;
UPDATE t SET n = 50 WHERE id = 100;
UPDATE t SET id = 1 WHERE id = 100;
UPDATE s SET id = 100 WHERE id = 1;
UPDATE s SET id = 1 WHERE id = 2;
UPDATE s SET id = 2 WHERE id = 100;
COMMIT;
-- step
UPDATE x SET id = id + 1;
UPDATE x SET id = CASE id WHEN 2 THEN 3 WHEN 3 THEN 2 ELSE id END;
-- step
BEGIN;
DELETE FROM s WHERE id = 3;
INSERT INTO s VALUES (3, 33);
UPDATE s SET id = 30 WHERE id = 3;
INSERT INTO s VALUES (3, 34);
DELETE FROM s WHERE id = 30;
UPDATE s SET id = 30 WHERE id = 3;
COMMIT;
-- step
BEGIN;
UPDATE x SET id = id + 1;
INSERT INTO x SELECT 3, 1000 WHERE NOT EXISTS (SELECT FROM x WHERE id = 3);
DELETE FROM x WHERE n = 1;
COMMIT;
-- step
UPDATE t SET id = -id;
UPDATE t SET id = -id, v = 'short' WHERE id = -2;

-- history: generated columns of values out of line, from 13 on
CREATE TABLE t (id int PRIMARY KEY, v text, g text GENERATED ALWAYS AS (v || v) STORED, n int);
ALTER TABLE t ALTER v SET STORAGE EXTERNAL, ALTER g SET STORAGE EXTERNAL;
INSERT INTO t (id, v, n) SELECT i, repeat('v', 4000), i FROM generate_series(1, 4) i;
CREATE TABLE f (id int, v text, g text GENERATED ALWAYS AS (v || v) STORED, n int);
INSERT INTO f (id, v, n) SELECT id, v, n FROM t;
-- step
UPDATE t SET n = n + 1;
-- step
UPDATE t SET v = 'short' WHERE id = 2;
UPDATE t SET n = 0 WHERE id = 2;
-- step
ALTER TABLE t ALTER g DROP EXPRESSION;
UPDATE t SET n = 7;
UPDATE t SET g = 'own' WHERE id = 1;
