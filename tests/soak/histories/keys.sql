-- history: another index becomes the primary key
CREATE TABLE t (id int primary key, b int NOT NULL, v text);
INSERT INTO t VALUES (1,11,'a'),(2,12,'b');
-- step
CREATE UNIQUE INDEX tb ON t (b);
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ADD CONSTRAINT tk PRIMARY KEY USING INDEX tb;
UPDATE t SET v = v || 'x';
-- step
DELETE FROM t WHERE b = 11;
-- step
INSERT INTO t VALUES (3,13,'c');
UPDATE t SET b = 14 WHERE b = 13;

-- history: a column of the key is dropped
CREATE TABLE t (a int, b int, v text, PRIMARY KEY (a,b));
INSERT INTO t VALUES (1,1,'a'),(2,2,'b');
-- step
ALTER TABLE t DROP b;
INSERT INTO t VALUES (3,'c');
-- step
INSERT INTO t VALUES (4,'c');
-- step
ALTER TABLE t ADD PRIMARY KEY (a);
-- step
UPDATE t SET v = 'z' WHERE a = 3;
-- step
DELETE FROM t WHERE a = 4;

-- history: a key gets a wider type
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a'),(2,'b');
-- step
ALTER TABLE t ALTER id TYPE bigint;
INSERT INTO t VALUES (3000000000,'c');
-- step
UPDATE t SET v='z';
-- step
DELETE FROM t WHERE id=1;

-- history: float keys change their sign at zero
CREATE TABLE t (id float8 primary key, v text);
INSERT INTO t VALUES (0,'z'),('NaN','n'),('infinity','i'),(1.5,'x');
-- step
UPDATE t SET id = '-0' WHERE id = 0;
-- step
UPDATE t SET v = 'nn' WHERE id = 'NaN';
UPDATE t SET id = '-infinity' WHERE id='infinity';
-- step
UPDATE t SET v='q' WHERE id = 0;
-- step
DELETE FROM t WHERE id = 0;

-- history: numeric keys change their scale, from 15 on
CREATE TABLE t (id numeric primary key, n numeric(3,-2), m numeric(2,5), v text);
INSERT INTO t VALUES (1.0,12345,0.00012,'a'),('NaN','NaN',NULL,'n'),(2,100,0.00099,'b');
-- step
UPDATE t SET id = 1.00 WHERE id = 1;
-- step
UPDATE t SET v='q' WHERE id = 1.000;
-- step
INSERT INTO t VALUES (1e300,99900,0,'big'),(1e-300,-100,-0.00001,'small');
-- step
ALTER TABLE t ALTER n TYPE numeric(5,-2);
INSERT INTO t VALUES (7,1234567,0,'w');
-- step
DELETE FROM t WHERE id = 1;

-- history: a key of citext changes its case
CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
CREATE EXTENSION IF NOT EXISTS hstore SCHEMA public;
CREATE TABLE t (id public.citext primary key, h public.hstore);
INSERT INTO t VALUES ('A','a=>1'),('b',NULL);
-- step
UPDATE t SET id = 'a' WHERE id = 'A';
-- step
UPDATE t SET h = 'x=>NULL' WHERE id='A';
-- step
ALTER TABLE t ALTER id TYPE text;
INSERT INTO t VALUES ('A','q=>2');
-- step
DELETE FROM t WHERE id='a';

-- history: temporal keys, from 18 on
CREATE EXTENSION IF NOT EXISTS btree_gist SCHEMA public;
SET LOCAL search_path={schema},public;
CREATE TABLE t (id int, during tsrange, v text, PRIMARY KEY (id, during WITHOUT OVERLAPS));
INSERT INTO t VALUES (1,'[2020-01-01,2021-01-01)','a'),(1,'[2021-01-01,2022-01-01)','b'),(2,'[2020-01-01,infinity)','c');
-- step
UPDATE t SET v = 'z' WHERE id = 1;
-- step
UPDATE t SET during = '[2020-06-01,2021-01-01)' WHERE id=1 AND v='z' AND during @> '2020-07-01'::timestamp;
-- step
DELETE FROM t WHERE id = 2;
-- step
INSERT INTO t VALUES (2,'(,2019-01-01)','n'),(3,'(2019-01-01,2020-01-01]','m');
-- step
ALTER TABLE t ALTER v TYPE text USING v || 'x';
-- step
UPDATE t SET v = 'after';
-- step
ALTER TABLE t REPLICA IDENTITY FULL;

-- history: temporal keys of numeric ranges, from 18 on
CREATE EXTENSION IF NOT EXISTS btree_gist SCHEMA public;
SET LOCAL search_path={schema},public;
CREATE TABLE t (id int, r numrange, v text, CONSTRAINT pk PRIMARY KEY (id, r WITHOUT OVERLAPS));
INSERT INTO t VALUES (1,'[1,2)','a'),(1,'[2.0,3)','b');
CREATE TABLE u (id int, r int4multirange, v text, PRIMARY KEY (id, r WITHOUT OVERLAPS));
INSERT INTO u VALUES (1,'{[1,2),[5,9)}','a');
-- step
UPDATE t SET r = '[1.00,2.0)' WHERE r @> 1.5;
-- step
UPDATE t SET v = 'q' WHERE r @> 1.5;
-- step
DELETE FROM t WHERE r @> 2.5;
UPDATE u SET v='x';
-- step
UPDATE u SET r = '{[1,3)}';
INSERT INTO u VALUES (1,'{[3,4)}','n');

-- history: a key is stored out of line
CREATE TABLE t (k text primary key, v text, n int);
ALTER TABLE t ALTER k SET STORAGE EXTERNAL;
ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
INSERT INTO t VALUES (repeat('a',20000), repeat('v',9000), 1),('short',repeat('w',9000),2);
CREATE TABLE f (k text, v text, n int);
ALTER TABLE f REPLICA IDENTITY FULL;
ALTER TABLE f ALTER k SET STORAGE EXTERNAL;
INSERT INTO f VALUES (repeat('a',20000), 'x', 1),(repeat('a',20000), 'x', 1);
-- step
UPDATE t SET n = n + 1;
-- step
UPDATE t SET k = 'now short' WHERE n = 2;
-- step
UPDATE t SET k = repeat('b',2600) WHERE n = 3;
-- step
UPDATE t SET v = 'small' WHERE n = 3;
UPDATE f SET n = 7 WHERE ctid = (SELECT min(ctid) FROM f);
-- step
UPDATE t SET n = 100 WHERE n=3;
-- step
DELETE FROM t WHERE n = 100;
DELETE FROM f WHERE n = 7;
-- step
ALTER TABLE t ALTER n TYPE bigint;
UPDATE t SET n = 55;

-- history: a generated column is the key
CREATE TABLE t (a int, g int GENERATED ALWAYS AS (a*2) STORED PRIMARY KEY, v text);
INSERT INTO t(a,v) VALUES (1,'x'),(2,'y');
-- step
INSERT INTO t(a,v) VALUES (3,'z');
-- step
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ADD PRIMARY KEY (a);
ALTER TABLE t REPLICA IDENTITY DEFAULT;
UPDATE t SET a = 10 WHERE a = 2;

-- history: keys are altered beside tables that have the names of their topics
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a');
CREATE TABLE t_2 (id int primary key, w int);
INSERT INTO t_2 VALUES (1,5);
CREATE TABLE t_3 (id int primary key);
-- step
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ADD PRIMARY KEY (v);
UPDATE t SET v='b';
-- step
INSERT INTO t VALUES (2,'z');
INSERT INTO t_2 VALUES (2,6);
-- step
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ADD PRIMARY KEY (id,v);
UPDATE t SET v='bb' WHERE id=1;
-- step
CREATE TABLE t_4 (id int primary key);
INSERT INTO t_4 VALUES (1);
-- step
INSERT INTO t_3 VALUES (8);
INSERT INTO t VALUES (3,'y');

-- history: a row conflicts with an exclusion constraint
CREATE TABLE t (id int primary key, r int4range, EXCLUDE USING gist (r WITH &&));
INSERT INTO t VALUES (1,'[1,5)');
-- step
INSERT INTO t VALUES (2,'[2,3)'),(3,'[7,8)') ON CONFLICT DO NOTHING;
-- step
UPDATE t SET r = '[8,9)' WHERE id = 3;
