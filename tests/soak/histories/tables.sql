-- history: a schema is dropped and made anew
CREATE TABLE t (id int primary key, v text);
CREATE TABLE u (id int primary key, v text);
INSERT INTO t VALUES (1,'a');
INSERT INTO u VALUES (1,'a');
-- step
DROP SCHEMA {schema} CASCADE;
CREATE SCHEMA {schema};
CREATE TABLE {schema}.t (id int primary key, v text);
INSERT INTO {schema}.t VALUES (9,'new');
CREATE TABLE {schema}.u (id text primary key, w int);
INSERT INTO {schema}.u VALUES ('x',9);
-- step
INSERT INTO t VALUES (10,'z');

-- history: three tables exchange their names
CREATE TABLE a (id int primary key, v text);
CREATE TABLE b (id text primary key, v int);
CREATE TABLE c (id bigint, v bool);
ALTER TABLE c REPLICA IDENTITY FULL;
INSERT INTO a VALUES (1,'a');
INSERT INTO b VALUES ('b',1);
INSERT INTO c VALUES (1,true);
-- step
INSERT INTO a VALUES (2,'x');
ALTER TABLE a RENAME TO x;
ALTER TABLE b RENAME TO a;
ALTER TABLE c RENAME TO b;
ALTER TABLE x RENAME TO c;
INSERT INTO c VALUES (3,'y');
INSERT INTO a VALUES ('q',4);
INSERT INTO b VALUES (5,false);
-- step
INSERT INTO a VALUES ('r',5);
UPDATE b SET v = NOT v;
DELETE FROM c WHERE id = 1;
-- step
ALTER TABLE a RENAME TO x;
ALTER TABLE b RENAME TO a;
ALTER TABLE c RENAME TO b;
ALTER TABLE x RENAME TO c;

-- history: tables are made of queries
SELECT 1;
-- step
CREATE TABLE t AS SELECT g AS id, 'x' AS v FROM generate_series(1,50) g;
SELECT id, v INTO u FROM t;
-- step
ALTER TABLE t ADD PRIMARY KEY (id);
UPDATE t SET v='y';
-- step
CREATE MATERIALIZED VIEW mv AS SELECT * FROM t;
CREATE TABLE w AS TABLE mv WITH NO DATA;

-- history: policies, rules and triggers
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a'),(2,'b');
CREATE TABLE log (id int, v text);
ALTER TABLE log REPLICA IDENTITY FULL;
-- step
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
ALTER TABLE t FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON t USING (id > 1);
INSERT INTO t VALUES (3,'c');
-- step
CREATE RULE r AS ON UPDATE TO t DO ALSO INSERT INTO log VALUES (NEW.id, NEW.v);
UPDATE t SET v = v || '!';
-- step
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := upper(NEW.v); RETURN NEW; END $$;
CREATE TRIGGER tr BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f();
INSERT INTO t VALUES (4,'d');
-- step
SET session_replication_role = replica;
INSERT INTO t VALUES (5,'e');
ALTER TABLE t ADD w int DEFAULT 6;
SET session_replication_role = DEFAULT;
-- step
ALTER TABLE t DISABLE TRIGGER ALL;
DELETE FROM t WHERE id = 5;

-- history: MERGE, ON CONFLICT and keys that change places, from 15 on
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a'),(2,'b');
-- step
TRUNCATE t;
INSERT INTO t SELECT g,'x' FROM generate_series(1,20) g;
INSERT INTO t VALUES (3,'dup'),(30,'new') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
-- step
MERGE INTO t USING (VALUES (1,'m'),(77,'n')) s(id,v) ON s.id=t.id WHEN MATCHED AND t.id=1 THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id,s.v);
-- step
UPDATE t SET id = id + 1000 WHERE id < 10;
UPDATE t SET id = 1 WHERE id=1002;
UPDATE t SET id=1002 WHERE id=1003;
UPDATE t SET id=1003 WHERE id=1;

-- history: tables inherit, leave and inherit again
CREATE TABLE p (id int primary key, a int);
CREATE TABLE c1 (z text, PRIMARY KEY (id)) INHERITS (p);
INSERT INTO p VALUES (1,1);
INSERT INTO c1 VALUES (2,2,'z');
-- step
ALTER TABLE p ADD b int DEFAULT 4;
UPDATE p SET a = a + 1;
-- step
ALTER TABLE c1 NO INHERIT p;
ALTER TABLE p RENAME a TO aa;
INSERT INTO c1 VALUES (3,3,'q',5);
-- step
CREATE TABLE c2 (id int primary key, aa int, b int);
INSERT INTO c2 VALUES (9,9,9);
ALTER TABLE c2 INHERIT p;
UPDATE p SET aa = 0;
-- step
ALTER TABLE p DROP b;
INSERT INTO c2 VALUES (10,1,2);
TRUNCATE p;

-- history: a table is dropped and made anew under its name
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a');
-- step
DROP TABLE t;
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (2,'b');
DROP TABLE t;
CREATE TABLE t (id text primary key);
INSERT INTO t VALUES ('c');
-- step
DROP TABLE t;
CREATE TABLE t (id int);
INSERT INTO t VALUES (3);
-- step
INSERT INTO t VALUES (4);

-- history: a temporary table hides one
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a');
-- step
CREATE TEMP TABLE t (id int primary key, v text);
INSERT INTO pg_temp.t VALUES (9,'tmp');
INSERT INTO {schema}.t VALUES (2,'b');
ALTER TABLE pg_temp.t ADD w int;
DROP TABLE pg_temp.t;

-- history: names that differ only in case are exchanged
CREATE TABLE t (id int primary key, v text);
CREATE TABLE "T" (id int primary key, "V" text, v int);
INSERT INTO t VALUES (1,'a');
INSERT INTO "T" VALUES (1,'A',2);
-- step
INSERT INTO t VALUES (2,'b');
INSERT INTO "T" VALUES (2,'B',3);
-- step
ALTER TABLE t RENAME TO x;
ALTER TABLE "T" RENAME TO t;
ALTER TABLE x RENAME TO "T";
INSERT INTO "T" VALUES (3,'n');
INSERT INTO t VALUES (3,'C',4);

-- history: a copy of a table takes its name
SELECT 1;
-- step
CREATE TABLE a AS SELECT 1 AS x;
ALTER TABLE a REPLICA IDENTITY FULL;
CREATE TABLE b (LIKE a INCLUDING ALL);
INSERT INTO b TABLE a;
UPDATE a SET x = 2;
DROP TABLE a;
ALTER TABLE b RENAME TO a;
-- step
INSERT INTO a VALUES (3);
-- step
CREATE TABLE c (id int primary key);
INSERT INTO c VALUES (1);
-- step
ALTER TABLE c SET SCHEMA public;
ALTER TABLE public.c RENAME TO "c_{schema}";
-- step
INSERT INTO public."c_{schema}" VALUES (2);

-- history: constraints that are not enforced, from 18 on
CREATE TABLE p (id int primary key);
CREATE TABLE t (id int primary key, p int, v int, CHECK (v > 0));
INSERT INTO p VALUES (1);
INSERT INTO t VALUES (1,1,1);
-- step
ALTER TABLE t ADD CONSTRAINT ck CHECK (v < 10) NOT ENFORCED;
ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (p) REFERENCES p NOT ENFORCED;
INSERT INTO t VALUES (2,77,99);
-- step
ALTER TABLE t ALTER CONSTRAINT fk NOT ENFORCED;
DELETE FROM p;
UPDATE t SET v = 5;

-- history: changes with an origin and as a replica
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a');
-- step
SELECT pg_replication_origin_create('o_{schema}');
SELECT pg_replication_origin_session_setup('o_{schema}');
-- step
INSERT INTO t VALUES (2,'b');
ALTER TABLE t ADD w int DEFAULT 3;
-- step
SET session_replication_role = replica;
-- step
INSERT INTO t VALUES (3,'c',4);
-- step
SET session_replication_role = DEFAULT;
SELECT pg_replication_origin_session_reset();
-- step
INSERT INTO t VALUES (4,'d',5);

-- history: a table is made anew of its old rows
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a');
-- step
ALTER TABLE t RENAME TO t_old;
CREATE TABLE t (LIKE t_old INCLUDING ALL);
INSERT INTO t SELECT id, v || '2' FROM t_old;
DROP TABLE t_old;
-- step
UPDATE t SET v = 'b';
-- step
ALTER TABLE t RENAME TO t_new;
CREATE TABLE t (id int primary key, v text, w int);
INSERT INTO t SELECT id, v, 3 FROM t_new;
ALTER TABLE t_new RENAME TO t_older;
-- step
INSERT INTO t VALUES (9,'n',9);
INSERT INTO t_older VALUES (10,'o');
