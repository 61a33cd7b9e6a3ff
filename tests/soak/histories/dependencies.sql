-- history: columns go with what they depend on, among rows of one transaction
CREATE COLLATION last (provider = libc, locale = 'C');
CREATE DOMAIN short AS varchar(9) CHECK (VALUE <> '');
CREATE TYPE pair AS (a int, b text);
CREATE SEQUENCE counter;
CREATE FUNCTION doubled(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 2';
CREATE TABLE t (id int PRIMARY KEY, c text COLLATE last, d short, p pair, ps pair[], n int DEFAULT nextval('counter'), v text);
CREATE TABLE f (id int, c text COLLATE last, d short, n int DEFAULT doubled(4), v text);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO t VALUES (1, 'c', 'd', '(1,x)', '{"(2,y)"}', DEFAULT, 'v');
INSERT INTO f VALUES (1, 'c', 'd', DEFAULT, 'v');
-- step
BEGIN;
INSERT INTO t VALUES (2, 'c', 'd', '(1,x)', NULL, DEFAULT, 'before');
DROP TYPE pair CASCADE;
INSERT INTO t VALUES (3, 'c', 'd', DEFAULT, 'between');
DROP SEQUENCE counter CASCADE;
INSERT INTO t (id, c, v) VALUES (4, 'c', 'after');
SAVEPOINT one;
DROP COLLATION last CASCADE;
DROP DOMAIN short CASCADE;
INSERT INTO t (id, v) VALUES (5, 'never');
UPDATE f SET v = 'never';
ROLLBACK TO one;
UPDATE t SET c = 'kept' WHERE id = 1;
UPDATE f SET d = 'kept';
COMMIT;
-- step
DELETE FROM f;
INSERT INTO f (id, c, d, v) VALUES (2, 'c', 'd', 'v');
DROP COLLATION last CASCADE;
DROP FUNCTION doubled CASCADE;
INSERT INTO f (id, d, v) VALUES (3, 'd', 'v');
UPDATE t SET v = 'no c';
-- step
DROP DOMAIN short CASCADE;
CREATE DOMAIN short AS int DEFAULT 5;
ALTER TABLE t ADD d short;
ALTER TABLE f ADD d short, ADD c text DEFAULT 'new';
INSERT INTO f (id, v) VALUES (4, 'v');
-- step
UPDATE f SET v = 'end' WHERE id < 4;
DELETE FROM f WHERE id = 2;
UPDATE t SET v = 'end';

-- history: what one role owns goes at once
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE u (id int PRIMARY KEY, v text);
CREATE TABLE r (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 PARTITION OF r FOR VALUES FROM (10) TO (20);
INSERT INTO t VALUES (1, 'a');
INSERT INTO u VALUES (1, 'a');
INSERT INTO r VALUES (1, 'a'), (11, 'b');
-- step
DO $$ BEGIN
  EXECUTE 'CREATE ROLE {schema}_one';
  EXECUTE 'CREATE ROLE {schema}_two';
  EXECUTE 'GRANT USAGE, CREATE ON SCHEMA {schema} TO {schema}_one, {schema}_two';
END $$;
ALTER TABLE u OWNER TO {schema}_one;
ALTER TABLE r2 OWNER TO {schema}_one;
INSERT INTO u VALUES (2, 'theirs');
INSERT INTO r VALUES (12, 'theirs');
-- step
REASSIGN OWNED BY {schema}_one TO {schema}_two;
UPDATE u SET v = 'of two';
UPDATE r SET v = 'of two' WHERE id > 10;
-- step
BEGIN;
INSERT INTO r VALUES (13, 'at last');
INSERT INTO u VALUES (3, 'at last');
DROP OWNED BY {schema}_two;
INSERT INTO r VALUES (2, 'after');
CREATE TABLE u (id int PRIMARY KEY, w text);
INSERT INTO u VALUES (1, 'new');
COMMIT;
-- step
DROP OWNED BY {schema}_one;
DROP ROLE {schema}_one, {schema}_two;
UPDATE r SET v = 'end';
INSERT INTO u VALUES (2, 'end');

-- history: a table is repacked: its rows are copied elsewhere, and the files exchanged
CREATE TABLE t (id int PRIMARY KEY, gone int, v text, big text);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
INSERT INTO t SELECT g, g, 'v' || g, repeat('x', 3000) FROM generate_series(1, 50) g;
ALTER TABLE t DROP gone;
ALTER TABLE t ADD n int DEFAULT 5;
DELETE FROM t WHERE id % 3 = 0;
-- step
CREATE TABLE copied AS SELECT id, v, big, n FROM t WITH NO DATA;
ALTER TABLE copied REPLICA IDENTITY FULL;
ALTER TABLE copied ALTER big SET STORAGE EXTERNAL;
CREATE TABLE logged (at int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id int);
CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql SET search_path TO {schema} AS $$
  BEGIN INSERT INTO logged (id) VALUES (coalesce(NEW.id, OLD.id)); RETURN NULL; END $$;
CREATE TRIGGER logs AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION logs();
-- step
INSERT INTO copied SELECT id, v, big, n FROM t;
-- step
UPDATE t SET v = 'late' WHERE id IN (1, 2);
DELETE FROM t WHERE id = 4;
INSERT INTO t VALUES (60, 'late', 'b', 6);
-- step
BEGIN;
LOCK TABLE t IN ACCESS EXCLUSIVE MODE;
DELETE FROM copied WHERE id IN (SELECT id FROM logged);
INSERT INTO copied SELECT id, v, big, n FROM t WHERE id IN (SELECT id FROM logged);
DROP TRIGGER logs ON t;
CREATE TABLE anew (id int, gone int, v text, big text, n int);
ALTER TABLE anew DROP gone;
ALTER TABLE anew ALTER big SET STORAGE EXTERNAL;
INSERT INTO anew SELECT * FROM copied;
UPDATE pg_class a SET relfilenode = b.relfilenode, reltoastrelid = b.reltoastrelid, relfrozenxid = b.relfrozenxid, relminmxid = b.relminmxid
  FROM pg_class b WHERE (a.oid, b.oid) IN (('t'::regclass, 'anew'::regclass), ('anew'::regclass, 't'::regclass));
UPDATE pg_depend SET refobjid = CASE refobjid WHEN 't'::regclass THEN 'anew'::regclass ELSE 't'::regclass END
  WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND deptype = 'i' AND refobjid IN ('t'::regclass, 'anew'::regclass)
    AND objid IN (SELECT reltoastrelid FROM pg_class WHERE oid IN ('t'::regclass, 'anew'::regclass));
COMMIT;
REINDEX TABLE t;
-- step
DROP TABLE anew, copied, logged;
UPDATE t SET v = 'end' WHERE id = 1;
INSERT INTO t VALUES (61, 'end', repeat('y', 3000), 7);
-- step
DELETE FROM t WHERE id = 2;
UPDATE t SET big = 'small' WHERE id = 5;

-- history: a child becomes a partition, and a partition a child
CREATE TABLE p (id int NOT NULL, v text);
CREATE TABLE c (PRIMARY KEY (id)) INHERITS (p);
CREATE TABLE r (id int NOT NULL, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
ALTER TABLE p REPLICA IDENTITY FULL;
INSERT INTO p VALUES (100, 'p');
INSERT INTO c VALUES (11, 'c'), (12, 'c');
INSERT INTO r VALUES (1, 'r');
-- step
ALTER TABLE c NO INHERIT p;
INSERT INTO c VALUES (13, 'alone');
ALTER TABLE r ATTACH PARTITION c FOR VALUES FROM (10) TO (20);
INSERT INTO r VALUES (14, 'r');
-- step
UPDATE r SET v = 'both' WHERE id IN (1, 11);
ALTER TABLE r DETACH PARTITION r1;
INSERT INTO r1 VALUES (2, 'alone');
ALTER TABLE r1 INHERIT p;
UPDATE p SET v = 'all of p';
-- step
ALTER TABLE p ADD w int DEFAULT 3;
INSERT INTO r1 VALUES (3, 'w', 4);
ALTER TABLE r1 NO INHERIT p;
ALTER TABLE r1 DROP w;
ALTER TABLE r ATTACH PARTITION r1 FOR VALUES FROM (0) TO (10);
-- step
DELETE FROM r WHERE id IN (2, 12);
UPDATE p SET v = 'end';

-- history: upserts of large values among alterations of one transaction
CREATE TABLE t (id int PRIMARY KEY, big text, v int);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
CREATE TABLE r (id int PRIMARY KEY, big text, v int) PARTITION BY RANGE (id);
CREATE TABLE r1 (big text, gone int, id int PRIMARY KEY, v int);
ALTER TABLE r1 DROP gone;
ALTER TABLE r1 ALTER big SET STORAGE EXTERNAL;
ALTER TABLE r ATTACH PARTITION r1 FOR VALUES FROM (0) TO (10);
INSERT INTO t SELECT g, repeat('t', 3000), g FROM generate_series(1, 5) g;
INSERT INTO r SELECT g, repeat('r', 3000), g FROM generate_series(1, 5) g;
-- step
BEGIN;
INSERT INTO t SELECT g, repeat('u', 3000), g FROM generate_series(4, 8) g ON CONFLICT (id) DO UPDATE SET v = t.v + 100;
ALTER TABLE t ADD w int DEFAULT 9;
INSERT INTO t SELECT g, repeat('w', 3000), g, g FROM generate_series(7, 10) g ON CONFLICT (id) DO UPDATE SET w = EXCLUDED.w;
ALTER TABLE t ALTER v TYPE bigint;
INSERT INTO t SELECT g, repeat('z', 3000), g, g FROM generate_series(9, 11) g ON CONFLICT (id) DO UPDATE SET v = 1000;
SAVEPOINT one;
ALTER TABLE t ALTER v TYPE text;
INSERT INTO t VALUES (1, 'never', 'never', 0) ON CONFLICT (id) DO UPDATE SET v = 'never';
ROLLBACK TO one;
INSERT INTO t VALUES (1, 'never', 7, 0) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
INSERT INTO r VALUES (1, 'never', 7) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
ALTER TABLE r ADD w int DEFAULT 8;
INSERT INTO r VALUES (2, 'never', 7, 7) ON CONFLICT (id) DO UPDATE SET w = EXCLUDED.w;
INSERT INTO r VALUES (6, repeat('n', 3000), 7, 7) ON CONFLICT (id) DO NOTHING;
UPDATE r SET id = 9 WHERE id = 3;
COMMIT;
-- step
UPDATE t SET v = v + 1;
UPDATE r SET v = v + 1;
-- step
UPDATE t SET id = id + 100 WHERE id < 4;
DELETE FROM r WHERE id = 9;

-- history: statistics, indexes over expressions and foreign keys to it change with a column's type
CREATE TABLE t (id int PRIMARY KEY, a int, b text, UNIQUE (a));
CREATE TABLE c (id int PRIMARY KEY, a int REFERENCES t (a) ON UPDATE CASCADE);
CREATE INDEX ON t (lower(b));
CREATE STATISTICS s ON a, b FROM t;
CREATE VIEW w AS SELECT id FROM t;
INSERT INTO t VALUES (1, 1, 'B'), (2, 2, 'C');
INSERT INTO c VALUES (1, 1), (2, 2);
-- step
BEGIN;
INSERT INTO t VALUES (3, 3, 'D');
ALTER TABLE c DROP CONSTRAINT c_a_fkey;
ALTER TABLE t ALTER a TYPE bigint, ALTER b TYPE varchar(5);
INSERT INTO t VALUES (4, 4, 'E');
ALTER TABLE c ALTER a TYPE bigint;
ALTER TABLE c ADD FOREIGN KEY (a) REFERENCES t (a) ON UPDATE CASCADE;
INSERT INTO c VALUES (3, 3);
COMMIT;
-- step
UPDATE t SET a = a + 10;
-- step
ALTER TABLE t ALTER b TYPE text;
CREATE OR REPLACE VIEW w AS SELECT id, a FROM t;
UPDATE t SET a = a + 10, b = b || '!';
