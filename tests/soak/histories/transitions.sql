-- history: two schemas exchange their names
CREATE SCHEMA {schema}_a;
CREATE SCHEMA {schema}_b;
CREATE TABLE {schema}_a.t (id int primary key, v text);
CREATE TABLE {schema}_b.t (id text primary key, w int);
CREATE TABLE {schema}_b.u (id int primary key);
INSERT INTO {schema}_a.t VALUES (1,'a');
INSERT INTO {schema}_b.t VALUES ('b',1);
-- step
BEGIN;
ALTER SCHEMA {schema}_a RENAME TO {schema}_x;
ALTER SCHEMA {schema}_b RENAME TO {schema}_a;
ALTER SCHEMA {schema}_x RENAME TO {schema}_b;
INSERT INTO {schema}_a.t VALUES ('c',2);
INSERT INTO {schema}_b.t VALUES (2,'b');
COMMIT;
-- step
UPDATE {schema}_a.t SET w = w + 1;
DELETE FROM {schema}_b.t WHERE id = 1;
-- step
DROP SCHEMA {schema}_a CASCADE;
ALTER SCHEMA {schema}_b RENAME TO {schema}_a;
INSERT INTO {schema}_a.t VALUES (3,'c');

-- history: timestamps get a zone while the session is far from UTC
CREATE TABLE t (id int primary key, a timestamp, b timestamptz, c timestamp(6), d interval, e timetz);
INSERT INTO t SELECT g, '2024-03-31 02:30'::timestamp + g * interval '7 h 1.123456 s',
  '2024-10-27 01:30+00'::timestamptz + g * interval '13 h', '2020-01-01 00:00:00.654321', '1 day 03:04:05.6', '01:02:03.5+04'
  FROM generate_series(1,20) g;
-- step
SET timezone = 'Europe/Berlin';
ALTER TABLE t ALTER a TYPE timestamptz, ALTER b TYPE timestamp;
INSERT INTO t VALUES (100,'2024-07-01 12:00','2024-07-01 12:00','2020-01-01','1 day','01:00+01');
SET timezone = 'UTC';
-- step
ALTER TABLE t ALTER c TYPE timestamp(0), ALTER d TYPE interval hour to minute, ALTER e TYPE time;
UPDATE t SET id = id + 1000 WHERE id < 5;
-- step
SET timezone = 'UTC';
ALTER TABLE t ALTER a TYPE timestamp, ALTER b TYPE timestamptz;
-- step
DELETE FROM t WHERE id = 100;
RESET timezone;

-- history: values lose what their new type cannot hold
CREATE TABLE t (id char(8) primary key, c char(10), v varchar(20), n numeric(12,4), f float8, b bit(8), j json, y bytea);
INSERT INTO t VALUES ('a','x  ','long value','123.4567',0.1,B'10101010','{"b": 1,  "a": 2, "a": 3}','\x0001'),
  ('b ','','z',NULL,1e-30,NULL,'null','');
-- step
ALTER TABLE t ALTER c TYPE text, ALTER n TYPE numeric(6,1);
INSERT INTO t VALUES ('c','q  ','w',1.25,2,B'00000000','[]','\xff');
-- step
ALTER TABLE t ALTER id TYPE text, ALTER v TYPE varchar(4) USING left(v, 4), ALTER f TYPE real, ALTER b TYPE varbit;
UPDATE t SET v = 'u' WHERE id = 'a';
-- step
ALTER TABLE t ALTER j TYPE jsonb, ALTER y TYPE text USING encode(y, 'hex');
DELETE FROM t WHERE id = 'b';
-- step
ALTER TABLE t ALTER j TYPE text, ALTER n TYPE numeric;

-- history: labels exchange their names while rows change
CREATE TYPE mood AS ENUM ('low','mid','high');
CREATE TYPE pair AS (m mood, n int);
CREATE DOMAIN few AS mood CHECK (VALUE <> 'mid');
CREATE TABLE t (id int primary key, m mood, ms mood[], p pair, ps pair[], s few);
CREATE TABLE k (m mood primary key, n int);
INSERT INTO t VALUES (1,'low','{low,high}','(low,1)','{"(high,2)"}','low'),(2,'high','{mid}','(mid,2)',NULL,'high');
INSERT INTO k VALUES ('low',1),('high',2);
-- step
BEGIN;
INSERT INTO t VALUES (3,'low','{high}','(high,1)','{}','low');
ALTER TYPE mood RENAME VALUE 'low' TO 'x';
ALTER TYPE mood RENAME VALUE 'high' TO 'low';
ALTER TYPE mood RENAME VALUE 'x' TO 'high';
INSERT INTO t VALUES (4,'low','{high}','(high,1)','{}','low');
UPDATE k SET n = n + 10;
COMMIT;
-- step
UPDATE t SET ms = ms || m;
INSERT INTO k VALUES ('mid',3);
-- step
DELETE FROM k WHERE m = 'low';
ALTER TYPE mood RENAME VALUE 'low' TO 'gone';
-- step
ALTER TYPE mood ADD VALUE 'low' BEFORE 'mid';
-- step
INSERT INTO k VALUES ('low',9),('gone',8);
UPDATE t SET m = 'low' WHERE id = 1;

-- history: columns come with the default of their domain, or of a moment
CREATE DOMAIN five AS int DEFAULT 5;
CREATE DOMAIN checked AS int DEFAULT 6 CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text);
CREATE TABLE t (id int primary key, v text);
CREATE TABLE f (v text);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO t VALUES (1,'a'),(2,'b');
INSERT INTO f VALUES ('a'),('a'),('b');
-- step
ALTER TABLE t ADD d five, ADD c checked, ADD n timestamptz DEFAULT now(), ADD u text DEFAULT current_database();
ALTER TABLE f ADD d five, ADD n timestamptz DEFAULT now(), ADD e text DEFAULT '';
INSERT INTO t (id) VALUES (3);
DELETE FROM f WHERE v = 'b';
-- step
ALTER TABLE t ADD p pair DEFAULT '(1,x)', ADD ps pair[] DEFAULT '{"(2,y)"}', ADD b bytea DEFAULT '\x00', ADD z int[] DEFAULT '[5:6]={1,2}';
ALTER TABLE f ADD p pair DEFAULT '(1,x)';
UPDATE f SET v = 'c';
-- step
ALTER TYPE pair ADD ATTRIBUTE c int;
ALTER TYPE pair DROP ATTRIBUTE a;
INSERT INTO t (id) VALUES (4);
-- step
ALTER DOMAIN five SET DEFAULT 7;
ALTER TABLE t ADD d2 five;
ALTER TABLE t ALTER d SET DEFAULT 8;
DELETE FROM t WHERE id = 1;
UPDATE f SET v = 'd' WHERE ctid = (SELECT min(ctid) FROM f);
-- step
ALTER TABLE t DROP p, DROP d, ADD r float8 DEFAULT random(), ADD d five;
UPDATE t SET v = 'z';

-- history: columns of a parent change in its children
CREATE TABLE p (a int, b text, PRIMARY KEY (a));
CREATE TABLE q (c int, b text);
CREATE TABLE c1 (z text, b text, PRIMARY KEY (a)) INHERITS (p);
CREATE TABLE c2 (PRIMARY KEY (a)) INHERITS (p, q);
INSERT INTO p VALUES (1,'p');
INSERT INTO c1 (a,b,z) VALUES (2,'c1','z');
INSERT INTO c2 (a,b,c) VALUES (3,'c2',1);
INSERT INTO q VALUES (7,'q');
ALTER TABLE q REPLICA IDENTITY FULL;
-- step
ALTER TABLE c1 ADD n int DEFAULT 1;
ALTER TABLE p ADD n int DEFAULT 2;
UPDATE p SET b = b || '!';
-- step
ALTER TABLE p RENAME a TO aa;
ALTER TABLE p ALTER n TYPE bigint;
INSERT INTO c1 (aa,b) VALUES (4,'x');
-- step
ALTER TABLE p DROP n;
ALTER TABLE q RENAME c TO cc;
DELETE FROM p WHERE aa = 2;
-- step
ALTER TABLE ONLY p DROP b;
UPDATE c2 SET b = 'y', cc = 9;
TRUNCATE ONLY p;
-- step
DROP TABLE q CASCADE;

-- history: truncates reach partitions through foreign keys, from 13 on
CREATE TABLE r (id int primary key, v text) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 PARTITION OF r DEFAULT;
CREATE TABLE c (id int primary key, r int REFERENCES r ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE d (id int, c int REFERENCES c ON DELETE SET NULL, PRIMARY KEY (id)) PARTITION BY HASH (id);
CREATE TABLE d0 PARTITION OF d FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE d1 PARTITION OF d FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO r SELECT g, 'v' FROM generate_series(1,20) g;
INSERT INTO c SELECT g, g FROM generate_series(1,20) g;
INSERT INTO d SELECT g, g FROM generate_series(1,20) g;
-- step
UPDATE r SET id = id + 100 WHERE id > 17;
DELETE FROM r WHERE id BETWEEN 5 AND 6;
-- step
BEGIN;
INSERT INTO r VALUES (12,'again') ON CONFLICT (id) DO UPDATE SET id = 208;
TRUNCATE r CASCADE;
INSERT INTO r VALUES (1,'new'),(50,'new');
INSERT INTO c VALUES (1,1),(2,50);
INSERT INTO d VALUES (1,1),(2,2);
COMMIT;
-- step
TRUNCATE r CASCADE;
-- step
INSERT INTO r VALUES (2,'newer');
INSERT INTO d VALUES (5,NULL);

-- history: names as long as Postgres takes
CREATE TABLE "Aäaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1" (id int primary key, "Bäbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb1" text, "Bäbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb2" int);
INSERT INTO "Aäaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1" VALUES (1,'a',1);
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'t');
-- step
ALTER TABLE t RENAME TO "Aäaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa2";
INSERT INTO "Aäaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa2" VALUES (2,'t');
-- step
BEGIN;
ALTER TABLE "Aäaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1" RENAME "Bäbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb1" TO x;
ALTER TABLE "Aäaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1" RENAME "Bäbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb2" TO "Bäbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb1";
ALTER TABLE "Aäaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1" RENAME x TO "Bäbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb2";
INSERT INTO "Aäaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1" VALUES (2,'b',2);
COMMIT;
-- step
ALTER TABLE "Aäaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1" RENAME TO "T";
ALTER TABLE "Aäaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa2" RENAME TO "Aäaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1";
CREATE TABLE t (id int primary key);
INSERT INTO t VALUES (1);
UPDATE "T" SET id = id + 10;

-- history: rows that MERGE changes, returns and does not find, from 17 on
CREATE TABLE t (id int primary key, v text, n int);
CREATE TABLE r (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 PARTITION OF r DEFAULT;
CREATE TABLE log (at int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id int, v text);
INSERT INTO t SELECT g, 'v', g FROM generate_series(1,10) g;
INSERT INTO r SELECT g, 'v' FROM generate_series(1,20) g;
-- step
WITH m AS (MERGE INTO t USING (VALUES (1,'m'),(5,'m'),(77,'n')) s(id,v) ON s.id = t.id
  WHEN MATCHED AND t.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v, id = t.id + 100
  WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, 0) WHEN NOT MATCHED BY SOURCE AND t.id > 8 THEN DELETE
  RETURNING t.id, t.v) INSERT INTO log (id, v) SELECT id, v FROM m;
-- step
MERGE INTO r USING (VALUES (1,15),(12,3),(99,99)) s(id,new) ON s.id = r.id
  WHEN MATCHED AND r.id = 12 THEN DELETE WHEN MATCHED THEN UPDATE SET id = 40, v = 'moved'
  WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'new') WHEN NOT MATCHED BY SOURCE AND r.id = 2 THEN UPDATE SET id = 22 + 8;
-- step
ALTER TABLE t ALTER n SET DEFAULT 9, ADD w int DEFAULT 3;
MERGE INTO t USING log s ON s.id = t.id WHEN MATCHED THEN UPDATE SET w = 4 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v);

-- history: an expression is replaced beside a key, from 17 on
CREATE TABLE t (id int primary key, a int, g int GENERATED ALWAYS AS (a * 2) STORED, b text);
CREATE TABLE r (id int primary key, a int, g int GENERATED ALWAYS AS (a * 2) STORED) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 PARTITION OF r DEFAULT;
INSERT INTO t VALUES (1,1,DEFAULT,'x'),(2,2,DEFAULT,'y');
INSERT INTO r VALUES (1,1),(20,2);
-- step
ALTER TABLE t ALTER g SET EXPRESSION AS (a * 3);
ALTER TABLE r ALTER g SET EXPRESSION AS (a * 3);
-- step
UPDATE t SET a = 5 WHERE id = 1;
INSERT INTO r VALUES (2,2);
-- step
ALTER TABLE t ALTER g DROP EXPRESSION;
ALTER TABLE r ALTER g DROP EXPRESSION;
UPDATE t SET g = -1;
INSERT INTO r VALUES (3,3,-1);
-- step
ALTER TABLE t DROP g, ADD g int GENERATED ALWAYS AS (id + a) STORED;
DELETE FROM t WHERE id = 1;
-- step
ALTER TABLE t RENAME g TO h;
ALTER TABLE t RENAME b TO g;
INSERT INTO t VALUES (3,3,'z');

-- history: large objects and messages among DDL
CREATE TABLE t (id int primary key, lo oid, v text);
INSERT INTO t VALUES (1, lo_from_bytea(0, '\x0102'), 'a');
-- step
BEGIN;
SELECT pg_logical_emit_message(true, 'walbridge', 'in between');
ALTER TABLE t ADD w int DEFAULT 4;
SELECT lo_put(lo, 1, '\xff') FROM t;
SELECT pg_logical_emit_message(false, '', 'not of it');
INSERT INTO t VALUES (2, lo_creat(-1), 'b', 5);
SAVEPOINT one;
ALTER TABLE t RENAME w TO x;
SELECT pg_logical_emit_message(true, 'm', repeat('x', 100000));
UPDATE t SET x = 6;
ROLLBACK TO one;
UPDATE t SET v = 'c' WHERE id = 2;
COMMIT;
-- step
SELECT lo_unlink(lo) FROM t WHERE id = 1;
DELETE FROM t WHERE id = 1;
SELECT pg_logical_emit_message(false, 'x', '');

-- history: an existing table becomes typed and is it no more
CREATE TYPE row2 AS (id int, v text);
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a');
-- step
ALTER TABLE t OF row2;
INSERT INTO t VALUES (2,'b');
-- step
ALTER TYPE row2 ADD ATTRIBUTE n int CASCADE;
ALTER TYPE row2 RENAME ATTRIBUTE v TO w CASCADE;
UPDATE t SET n = 1;
-- step
ALTER TABLE t NOT OF;
ALTER TYPE row2 DROP ATTRIBUTE n;
ALTER TABLE t ADD m int DEFAULT 3;
INSERT INTO t VALUES (3,'c',2,4);

-- history: a log is rotated in one transaction
CREATE TABLE log (at int primary key, v text);
CREATE TABLE f (at int, v text);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO log SELECT g, 'v' FROM generate_series(1,50) g;
INSERT INTO f SELECT * FROM log;
-- step
BEGIN;
ALTER TABLE log RENAME TO log_old;
CREATE TABLE log (LIKE log_old INCLUDING ALL);
INSERT INTO log SELECT * FROM log_old WHERE at > 45;
TRUNCATE log_old;
INSERT INTO log VALUES (51,'w');
CREATE TABLE f2 (LIKE f);
ALTER TABLE f2 REPLICA IDENTITY FULL;
WITH gone AS (DELETE FROM f RETURNING *) INSERT INTO f2 SELECT * FROM gone;
ALTER TABLE f RENAME TO f_old;
ALTER TABLE f2 RENAME TO f;
COMMIT;
-- step
BEGIN;
DROP TABLE log_old;
ALTER TABLE log RENAME TO log_old;
CREATE TABLE log (LIKE log_old INCLUDING ALL, n int DEFAULT 7);
INSERT INTO log VALUES (1,'x');
DELETE FROM log_old WHERE at = 51;
DROP TABLE f_old;
UPDATE f SET v = 'z' WHERE at < 4;
COMMIT;
-- step
INSERT INTO log VALUES (2,'y');
INSERT INTO log_old VALUES (60,'y');

-- history: temporary tables take the names of published ones
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a');
-- step
BEGIN;
CREATE TEMP TABLE t (id int, v text, w int) ON COMMIT DROP;
INSERT INTO t VALUES (100,'temp',1);
ALTER TABLE t ADD x int DEFAULT 5;
INSERT INTO {schema}.t VALUES (2,'b');
ALTER TABLE {schema}.t ADD w int DEFAULT 1;
TRUNCATE t;
COMMIT;
-- step
CREATE TEMP TABLE p AS SELECT * FROM t;
ALTER TABLE p ADD PRIMARY KEY (id);
UPDATE p SET w = 2;
UPDATE {schema}.t SET w = p.w + 1 FROM p WHERE p.id = t.id;
DROP TABLE p;

-- history: keys that are deferred change their places
CREATE TABLE t (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, k int NOT NULL UNIQUE, v text);
ALTER TABLE t REPLICA IDENTITY USING INDEX t_k_key;
CREATE TABLE f (id int PRIMARY KEY DEFERRABLE, v text);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO t SELECT g, g, 'v' || g FROM generate_series(1,6) g;
INSERT INTO f SELECT g, 'v' || g FROM generate_series(1,6) g;
-- step
UPDATE t SET id = 7 - id;
UPDATE f SET id = id + 1;
UPDATE f SET id = id - 1;
-- step
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE t SET id = 3, v = 'w' WHERE k = 1;
UPDATE t SET id = 6 WHERE k = 4;
DELETE FROM t WHERE k = 2;
INSERT INTO t VALUES (5, 12, 'new');
UPDATE f SET id = 1 WHERE id = 2;
UPDATE f SET id = 2 WHERE v = 'v1';
COMMIT;
-- step
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ADD PRIMARY KEY (id);
ALTER TABLE t REPLICA IDENTITY DEFAULT;
UPDATE t SET id = id + 100;
-- step
UPDATE t SET k = k + 100;
DELETE FROM t WHERE k = 101;

-- history: triggers change and refuse rows on their way
CREATE TABLE t (id int primary key, v text, n int, at timestamptz);
CREATE TABLE log (at int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, was text);
CREATE FUNCTION changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'DELETE' THEN INSERT INTO log (was) VALUES (OLD.v); RETURN OLD; END IF;
  IF NEW.n < 0 THEN RETURN NULL; END IF;
  NEW.v := upper(NEW.v); NEW.id := NEW.id + CASE WHEN TG_OP = 'INSERT' THEN 1000 ELSE 0 END; RETURN NEW; END $$;
INSERT INTO t VALUES (1,'a',1,NULL),(2,'b',2,NULL);
-- step
CREATE TRIGGER changed BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION changed();
INSERT INTO t VALUES (3,'c',1,now()),(4,'d',-1,now());
UPDATE t SET n = n - 2;
DELETE FROM t WHERE id = 1;
-- step
BEGIN;
ALTER TABLE t DISABLE TRIGGER changed;
INSERT INTO t VALUES (5,'e',-1,NULL);
ALTER TABLE t ADD w int DEFAULT 1;
ALTER TABLE t ENABLE ALWAYS TRIGGER changed;
UPDATE t SET w = 2 WHERE n > 0;
COMMIT;
-- step
DROP FUNCTION changed CASCADE;
UPDATE t SET v = lower(v);

-- history: a key is dropped and another one added among rows of one transaction
CREATE TABLE t (id int CONSTRAINT pk PRIMARY KEY, k text NOT NULL, v text);
INSERT INTO t SELECT g, 'k' || g, 'v' FROM generate_series(1,10) g;
-- step
BEGIN;
UPDATE t SET v = 'w' WHERE id < 4;
ALTER TABLE t DROP CONSTRAINT pk, ADD CONSTRAINT pk PRIMARY KEY (k);
UPDATE t SET k = 'x' || id WHERE id < 3;
DELETE FROM t WHERE id = 9;
INSERT INTO t VALUES (1,'k1','again');
COMMIT;
-- step
BEGIN;
ALTER TABLE t DROP CONSTRAINT pk, ADD CONSTRAINT pk PRIMARY KEY (k, id);
UPDATE t SET id = id + 1;
SAVEPOINT one;
ALTER TABLE t DROP CONSTRAINT pk;
ALTER TABLE t REPLICA IDENTITY FULL;
DELETE FROM t WHERE id > 5;
ROLLBACK TO one;
DELETE FROM t WHERE id = 3;
COMMIT;
-- step
ALTER TABLE t RENAME k TO id2;
ALTER TABLE t RENAME id TO k;
UPDATE t SET v = 'z';
-- step
ALTER TABLE t DROP CONSTRAINT pk;
INSERT INTO t VALUES (1,'k1','again');
ALTER TABLE t REPLICA IDENTITY FULL;
DELETE FROM t WHERE k = 1;

-- history: a partition gets a row's columns in another order, and hash and list partitions come and go, from 13 on
CREATE TABLE r (id int, k text, v int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE ra PARTITION OF r FOR VALUES IN ('a', 'b');
CREATE TABLE rn PARTITION OF r DEFAULT;
CREATE TABLE other (v int, gone int, k text NOT NULL, id int NOT NULL, PRIMARY KEY (id, k));
ALTER TABLE other DROP gone;
INSERT INTO r SELECT g, (ARRAY['a','b','c','d'])[g % 4 + 1], g FROM generate_series(1,20) g;
INSERT INTO other SELECT g, 'z', g FROM generate_series(100,105) g;
-- step
BEGIN;
ALTER TABLE r ATTACH PARTITION other FOR VALUES IN ('z');
ALTER TABLE r ADD w int DEFAULT 3;
UPDATE r SET k = 'z' WHERE k = 'a';
INSERT INTO other (id, k, v) VALUES (200, 'z', 1);
COMMIT;
-- step
BEGIN;
CREATE TABLE rc (LIKE r INCLUDING ALL);
WITH gone AS (DELETE FROM rn WHERE k = 'c' RETURNING *) INSERT INTO rc SELECT * FROM gone;
ALTER TABLE r ATTACH PARTITION rc FOR VALUES IN ('c');
ALTER TABLE r DETACH PARTITION rn;
COMMIT;
UPDATE r SET v = -v WHERE k = 'c';
-- step
ALTER TABLE r RENAME w TO x;
ALTER TABLE r ALTER v TYPE bigint;
DROP TABLE other;
INSERT INTO r VALUES (300, 'c', 3000000000, 1);
-- step
ALTER TABLE rn RENAME TO r_old;
DELETE FROM r WHERE v < 0;

-- history: identities and serials restart and are exhausted
CREATE TABLE t (id smallint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, s serial, v text);
INSERT INTO t (v) SELECT 'v' FROM generate_series(1,5);
-- step
ALTER TABLE t ALTER id RESTART WITH 32766;
INSERT INTO t (v) VALUES ('x'),('y');
ALTER TABLE t ALTER id TYPE int;
INSERT INTO t (v) VALUES ('z');
-- step
ALTER TABLE t ALTER id SET GENERATED ALWAYS RESTART WITH 40000;
INSERT INTO t (id, v) OVERRIDING SYSTEM VALUE VALUES (100, 'o');
ALTER TABLE t ALTER s TYPE bigint;
ALTER SEQUENCE t_s_seq AS bigint;
SELECT setval('t_s_seq', 5000000000);
INSERT INTO t (v) VALUES ('big');
-- step
ALTER TABLE t ALTER id DROP IDENTITY, ALTER s DROP DEFAULT;
TRUNCATE t RESTART IDENTITY;
INSERT INTO t VALUES (1, 7, 'a');
