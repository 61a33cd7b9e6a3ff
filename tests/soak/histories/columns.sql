-- history: a typed table follows its type
CREATE TYPE ty AS (id int, v text);
CREATE TABLE t OF ty (PRIMARY KEY (id));
INSERT INTO t VALUES (1,'a'),(2,'b');
-- step
ALTER TYPE ty ADD ATTRIBUTE w int CASCADE;
-- step
INSERT INTO t VALUES (3,'c',7);
-- step
ALTER TYPE ty RENAME ATTRIBUTE w TO x CASCADE;
INSERT INTO t VALUES (4,'d',8);
-- step
ALTER TABLE t NOT OF;
ALTER TYPE ty DROP ATTRIBUTE x;
-- step
ALTER TABLE t DROP x;
ALTER TABLE t OF ty;
-- step
INSERT INTO t VALUES (5,'e');

-- history: the type of a typed table gets a wider attribute
CREATE TYPE ty AS (id int, v int);
CREATE TABLE t OF ty (PRIMARY KEY (id));
INSERT INTO t VALUES (1,1),(2,2);
-- step
ALTER TYPE ty ALTER ATTRIBUTE v TYPE bigint CASCADE;
INSERT INTO t VALUES (3,3);
-- step
INSERT INTO t VALUES (4,4);

-- history: three columns exchange their names
CREATE TABLE t (id int primary key, a int, b int, c int, d int GENERATED ALWAYS AS (id+1) STORED);
INSERT INTO t VALUES (1,1,2,3),(2,10,20,30);
-- step
INSERT INTO t(id,a,b,c) VALUES (3,1,2,3);
ALTER TABLE t RENAME a TO x;
ALTER TABLE t RENAME b TO a;
ALTER TABLE t RENAME c TO b;
ALTER TABLE t RENAME x TO c;
INSERT INTO t(id,a,b,c) VALUES (4,1,2,3);
-- step
ALTER TABLE t RENAME a TO x;
ALTER TABLE t RENAME b TO a;
INSERT INTO t(id,a,x,c) VALUES (5,1,2,3);
ALTER TABLE t RENAME c TO b;
ALTER TABLE t RENAME x TO c;
INSERT INTO t(id,a,b,c) VALUES (6,1,2,3);
-- step
UPDATE t SET a = a + 1;

-- history: columns are swapped beside one that goes and one that comes
CREATE TABLE t (id int primary key, a int, b int, c int);
INSERT INTO t VALUES (1,1,2,3),(2,10,20,30);
-- step
ALTER TABLE t DROP c;
ALTER TABLE t ADD x int DEFAULT 7;
INSERT INTO t VALUES (3,1,2,3);
ALTER TABLE t RENAME a TO q;
ALTER TABLE t RENAME b TO a;
ALTER TABLE t RENAME q TO b;
-- step
INSERT INTO t VALUES (4,5,6,7);

-- history: a block catches the error of its DDL
CREATE TABLE t (id int primary key, a int);
INSERT INTO t VALUES (1,1);
-- step
DO $$ BEGIN INSERT INTO t VALUES (2,2); BEGIN ALTER TABLE t ADD x int DEFAULT 5; INSERT INTO t VALUES (3,3,3); RAISE EXCEPTION 'no'; EXCEPTION WHEN OTHERS THEN INSERT INTO t VALUES (4,4); END; ALTER TABLE t RENAME a TO b; ALTER TABLE t ADD a text DEFAULT 'new'; INSERT INTO t VALUES (5,5,'v'); END $$;
-- step
INSERT INTO t VALUES (6,6,'w');

-- history: a streamed transaction rolls its DDL back to a savepoint
CREATE TABLE t (id int primary key, a text);
INSERT INTO t VALUES (0,'z');
-- step
BEGIN;
INSERT INTO t SELECT g, repeat(md5(g::text),20) FROM generate_series(1,1500) g;
SAVEPOINT x;
ALTER TABLE t ADD b int;
INSERT INTO t SELECT g, repeat(md5(g::text),20), g FROM generate_series(2001,3500) g;
ROLLBACK TO x;
ALTER TABLE t ADD c text DEFAULT 'cc';
INSERT INTO t SELECT g, repeat(md5(g::text),20), 'x' FROM generate_series(4001,5500) g;
ALTER TABLE t RENAME a TO d;
UPDATE t SET d = 'short' WHERE id < 100;
COMMIT;

-- history: columns of many types come with constant defaults
CREATE TABLE t (id int primary key);
INSERT INTO t VALUES (1),(2);
CREATE DOMAIN dd AS int DEFAULT 5;
CREATE TYPE pr AS (a int, b text);
CREATE TYPE mood AS ENUM ('sad','it''s, "ok"');
-- step
ALTER TABLE t ADD a int[] DEFAULT '[0:1]={1,2}', ADD b pr DEFAULT ROW(1,'x,"y')::pr, ADD c dd, ADD d bytea DEFAULT '\x00ff', ADD e jsonb DEFAULT '{"a": [1,null]}', ADD f timestamptz DEFAULT now(), ADD g "char" DEFAULT 'x', ADD h box DEFAULT '(1,2),(3,4)', ADD i float4 DEFAULT 0.1, ADD j money DEFAULT 12.34, ADD k interval DEFAULT '1 year 2 days 3.5 s', ADD l mood DEFAULT 'it''s, "ok"', ADD m mood[] DEFAULT ARRAY['sad','it''s, "ok"']::mood[], ADD n text DEFAULT '', ADD o text[] DEFAULT ARRAY[]::text[], ADD p date DEFAULT 'infinity', ADD q timestamptz DEFAULT '294276-12-31 00:00:00+00', ADD r numeric DEFAULT 'NaN', ADD s bit(3) DEFAULT B'101', ADD w int4range DEFAULT '[1,5)', ADD x timetz DEFAULT '12:00:00+02', ADD y text DEFAULT E'a,b\n\\N\t"', ADD z tsvector DEFAULT 'a b:3A', ADD aa text[] DEFAULT ARRAY[NULL,'NULL',''], ADD bb numeric(5,2) DEFAULT 1, ADD cc char(4) DEFAULT 'a', ADD dd float8 DEFAULT '-0', ADD ee timestamp DEFAULT '0044-03-15 BC', ADD ff jsonpath DEFAULT '$.a', ADD gg uuid[] DEFAULT ARRAY['00000000-0000-0000-0000-000000000001'::uuid];
-- step
INSERT INTO t(id) VALUES (3);
-- step
UPDATE t SET n = 'q' WHERE id = 1;

-- history: one ALTER TABLE does four things
CREATE TABLE t (id int primary key, a int, b text, c varchar(5));
INSERT INTO t VALUES (1,1,'b','c');
-- step
ALTER TABLE t ADD d int DEFAULT 1, DROP b, ALTER c TYPE varchar(10), ADD IF NOT EXISTS a int, ALTER a SET DEFAULT 9;
INSERT INTO t VALUES (2,2,'cc',2);
-- step
ALTER TABLE t ADD e text, ADD f bool DEFAULT true;
ALTER TABLE t DROP e;
INSERT INTO t VALUES (3,3,'c',3,false);

-- history: nothing that matters is altered
CREATE TABLE t (id int primary key, a int, v text);
INSERT INTO t VALUES (1,1,'b');
-- step
ALTER TABLE t OWNER TO postgres;
ALTER TABLE t ALTER v SET STORAGE MAIN;
ALTER TABLE t ALTER v TYPE text COLLATE "C";
CREATE STATISTICS st ON id, a FROM t;
ALTER TABLE t CLUSTER ON t_pkey;
ALTER TABLE t SET (autovacuum_enabled=false);
CREATE INDEX ti ON t (a);
INSERT INTO t VALUES (2,2,'x');
-- step
ALTER TABLE t SET WITHOUT CLUSTER;
ALTER INDEX ti RENAME TO tj;
DROP INDEX tj;
ALTER TABLE t ADD CONSTRAINT ck CHECK (a > 0) NOT VALID;
ALTER TABLE t VALIDATE CONSTRAINT ck;
COMMENT ON TABLE t IS 'x';
ALTER TABLE t ADD CONSTRAINT un UNIQUE (a);
INSERT INTO t VALUES (3,3,'x');
-- step
VACUUM FULL t;
-- step
CLUSTER t USING t_pkey;
-- step
REINDEX TABLE CONCURRENTLY t;
-- step
ALTER TABLE t RENAME CONSTRAINT t_pkey TO zz;
GRANT SELECT ON t TO PUBLIC;
ALTER TABLE t ALTER a SET NOT NULL;
UPDATE t SET v='zz';

-- history: types get longer without a rewrite
CREATE TABLE t (id int primary key, i interval(3), tm time(3), b bit(3), n numeric(5,2), vb varbit(3), x varchar(3)[], o oid, tz timestamptz(3));
INSERT INTO t VALUES (1,'1.234 s','10:00:00.123',B'101',1.25,B'1',ARRAY['a'],4294967295,'2024-01-01 00:00:00.123+00');
-- step
ALTER TABLE t ALTER i TYPE interval, ALTER tm TYPE time, ALTER n TYPE numeric(9,2), ALTER vb TYPE varbit, ALTER tz TYPE timestamptz;
INSERT INTO t(id) VALUES (2);
-- step
INSERT INTO t(id,tm) VALUES (3,'24:00:00');

-- history: a table has as many columns as Postgres takes
DO $$ BEGIN EXECUTE 'CREATE TABLE t (id int primary key,' || (SELECT string_agg('c'||g||' int',',') FROM generate_series(1,1599) g) || ')'; END $$;
INSERT INTO t(id,c1,c1599) VALUES (1,1,1);
-- step
INSERT INTO t(id,c2) VALUES (2,2);
UPDATE t SET c3 = 3;
-- step
ALTER TABLE t RENAME c1 TO z;
ALTER TABLE t RENAME c2 TO c1;
ALTER TABLE t RENAME z TO c2;
DELETE FROM t WHERE id=2;
INSERT INTO t(id,c1) VALUES (3,1);

-- history: tables without columns
CREATE TABLE t ();
INSERT INTO t DEFAULT VALUES;
INSERT INTO t DEFAULT VALUES;
CREATE TABLE u (a int);
INSERT INTO u VALUES (1),(2);
ALTER TABLE u DROP a;
CREATE TABLE w ();
ALTER TABLE w REPLICA IDENTITY FULL;
INSERT INTO w DEFAULT VALUES;
-- step
INSERT INTO t DEFAULT VALUES;
INSERT INTO u DEFAULT VALUES;
DELETE FROM w;
-- step
ALTER TABLE t ADD a int DEFAULT 3;
INSERT INTO t VALUES (4);
INSERT INTO w DEFAULT VALUES;
-- step
ALTER TABLE u ADD b text;
INSERT INTO u VALUES ('x');
-- step
ALTER TABLE t DROP a;
INSERT INTO t DEFAULT VALUES;
-- step
TRUNCATE t;
INSERT INTO t DEFAULT VALUES;

-- history: most columns of a table are gone
DO $$ BEGIN EXECUTE 'CREATE TABLE t (id int primary key,' || (SELECT string_agg('c'||g||' int',',') FROM generate_series(1,1500) g) || ')'; FOR i IN 1..1490 LOOP EXECUTE 'ALTER TABLE t DROP c'||i; END LOOP; END $$;
INSERT INTO t(id,c1500) VALUES (1,5);
-- step
ALTER TABLE t ADD d1 int DEFAULT 1;
INSERT INTO t(id,c1500,d1) VALUES (2,6,7);
-- step
ALTER TABLE t DROP c1500;
ALTER TABLE t ADD c1500 text DEFAULT 'q';
INSERT INTO t(id) VALUES (3);
UPDATE t SET d1 = 9 WHERE id=1;

-- history: four hundred columns of text under identity FULL
DO $$ BEGIN EXECUTE 'CREATE TABLE t (id int primary key,' || (SELECT string_agg('"Ünï '||g||'" text',',') FROM generate_series(1,400) g) || ')'; END $$;
ALTER TABLE t REPLICA IDENTITY FULL;
INSERT INTO t(id,"Ünï 400") VALUES (1,'é');
-- step
UPDATE t SET "Ünï 1" = repeat('ü',5000);
-- step
UPDATE t SET "Ünï 2" = 'x';
UPDATE t SET id = 2;
-- step
DELETE FROM t WHERE id = 2;

-- history: DDL within savepoints within savepoints
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a');
-- step
BEGIN;
SAVEPOINT a;
ALTER TABLE t ADD x int DEFAULT 1;
SAVEPOINT b;
ALTER TABLE t ADD y int DEFAULT 2;
INSERT INTO t VALUES (2,'b',3,4);
SAVEPOINT c;
ALTER TABLE t DROP x;
INSERT INTO t VALUES (3,'c',5);
ROLLBACK TO c;
ALTER TABLE t RENAME x TO z;
INSERT INTO t VALUES (4,'d',6,7);
RELEASE b;
ALTER TABLE t DROP v;
INSERT INTO t VALUES (5,8,9);
ROLLBACK TO a;
INSERT INTO t VALUES (6,'f');
COMMIT;
-- step
INSERT INTO t VALUES (7,'g');
-- step
BEGIN;
SAVEPOINT a;
INSERT INTO t SELECT g, repeat(md5(g::text),20) FROM generate_series(100,900) g;
ALTER TABLE t ADD x text DEFAULT 'x1';
INSERT INTO t SELECT g, repeat(md5(g::text),20) FROM generate_series(1000,1900) g;
ROLLBACK TO a;
ALTER TABLE t ADD x int DEFAULT 5;
INSERT INTO t SELECT g, repeat(md5(g::text),20) FROM generate_series(2000,2900) g;
SAVEPOINT b;
DELETE FROM t WHERE id > 2500;
TRUNCATE t;
ROLLBACK TO b;
UPDATE t SET x = 6 WHERE id = 2000;
COMMIT;

-- history: compression and storage of a column are altered, from 14 on
CREATE TABLE t (id int primary key, v text COMPRESSION pglz);
INSERT INTO t VALUES (1,repeat('ab',5000));
-- step
ALTER TABLE t ALTER v SET COMPRESSION DEFAULT;
UPDATE t SET v = v || 'c';
INSERT INTO t VALUES (2,repeat('xy',9000));
-- step
ALTER TABLE t ALTER v SET STORAGE PLAIN;
UPDATE t SET id = id + 5;
-- step
ALTER TABLE t SET (toast_tuple_target = 128, fillfactor = 50);
UPDATE t SET id = id + 5;

-- history: what is said of a table is altered, from 15 on
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a');
-- step
ALTER TABLE t SET ACCESS METHOD heap;
INSERT INTO t VALUES (2,'b');
-- step
ALTER TABLE t SET WITHOUT OIDS;
ALTER TABLE t ALTER v SET STATISTICS 100;
ALTER TABLE t ALTER v SET (n_distinct=5);
ALTER TABLE t REPLICA IDENTITY DEFAULT;
INSERT INTO t VALUES (3,'b');
-- step
ANALYZE t;
INSERT INTO t VALUES (4,'b');
