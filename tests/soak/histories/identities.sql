-- history: the index of the identity is renamed, rebuilt, dropped and made anew
CREATE TABLE t (id int NOT NULL, b int NOT NULL, v text);
CREATE UNIQUE INDEX ti ON t (id);
ALTER TABLE t REPLICA IDENTITY USING INDEX ti;
INSERT INTO t VALUES (1,11,'a'),(2,12,'b');
-- step
ALTER INDEX ti RENAME TO tj;
UPDATE t SET v='q' WHERE id=1;
-- step
REINDEX INDEX CONCURRENTLY tj;
-- step
UPDATE t SET v='r' WHERE id=1;
-- step
DROP INDEX tj;
INSERT INTO t VALUES (3,13,'c');
-- step
CREATE UNIQUE INDEX tk ON t (b) INCLUDE (v);
ALTER TABLE t REPLICA IDENTITY USING INDEX tk;
-- step
UPDATE t SET v = v||'x' WHERE b = 12;
-- step
DELETE FROM t WHERE b=13;

-- history: identities change from NOTHING to FULL to DEFAULT
CREATE TABLE t (id int primary key DEFERRABLE, v text);
INSERT INTO t VALUES (1,'a'),(2,'b');
-- step
INSERT INTO t VALUES (3,'c');
-- step
ALTER TABLE t REPLICA IDENTITY FULL;
UPDATE t SET id = id + 1;
-- step
DELETE FROM t WHERE id = 2;
-- step
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ADD PRIMARY KEY (id);
UPDATE t SET v = 'q';
-- step
ALTER TABLE t REPLICA IDENTITY DEFAULT;
DELETE FROM t WHERE id = 3;

-- history: equal rows without a key
CREATE TABLE t (a int, b text);
ALTER TABLE t REPLICA IDENTITY FULL;
ALTER TABLE t ALTER b SET STORAGE EXTERNAL;
INSERT INTO t VALUES (1,'x'),(1,'x'),(2,NULL);
-- step
DELETE FROM t WHERE ctid = (SELECT min(ctid) FROM t);
-- step
ALTER TABLE t ADD c int DEFAULT 3;
UPDATE t SET b = repeat('q',9000);
-- step
UPDATE t SET a = a + 1;
-- step
ALTER TABLE t ADD d int DEFAULT 4;
DELETE FROM t WHERE ctid = (SELECT min(ctid) FROM t);
-- step
ALTER TABLE t RENAME a TO e;
ALTER TABLE t RENAME c TO a;
ALTER TABLE t RENAME e TO c;
DELETE FROM t;

-- history: a NOT NULL that is not valid yet, from 18 on
CREATE TABLE t (id int primary key, b int, v text);
INSERT INTO t VALUES (1,NULL,'a'),(2,NULL,'b'),(3,3,NULL);
-- step
ALTER TABLE t ADD CONSTRAINT nb NOT NULL b NOT VALID;
INSERT INTO t VALUES (4,4,'d');
-- step
UPDATE t SET v = 'z' WHERE id = 3;
-- step
INSERT INTO t VALUES (5,5,'e');
ALTER TABLE t ADD CONSTRAINT nv NOT NULL v NOT VALID;
-- step
DELETE FROM t WHERE id = 1;
-- step
ALTER TABLE t ALTER v TYPE text USING v || '';

-- history: an index over a column whose NOT NULL is not valid, from 18 on
CREATE TABLE t (id int primary key, b int, v text);
INSERT INTO t VALUES (1,NULL,'a'),(2,NULL,'b'),(3,3,NULL);
ALTER TABLE t ADD CONSTRAINT nb NOT NULL b NOT VALID;
CREATE UNIQUE INDEX tb ON t (b);
-- step
ALTER TABLE t REPLICA IDENTITY USING INDEX tb;
-- step
UPDATE t SET v = 'z' WHERE id = 3;
-- step
INSERT INTO t VALUES (5,5,'e');
-- step
DELETE FROM t WHERE id = 1;
-- step
DELETE FROM t WHERE id = 2;
DELETE FROM t WHERE id=3;
-- step
ALTER TABLE t VALIDATE CONSTRAINT nb;

-- history: a NOT NULL that is validated becomes the key, from 18 on
CREATE TABLE t (b int, v text);
INSERT INTO t VALUES (1,'a'),(2,'b');
ALTER TABLE t ADD CONSTRAINT nb NOT NULL b NOT VALID;
ALTER TABLE t REPLICA IDENTITY FULL;
-- step
ALTER TABLE t VALIDATE CONSTRAINT nb;
ALTER TABLE t ADD PRIMARY KEY (b);
UPDATE t SET v='q';
-- step
DELETE FROM t WHERE b=1;

-- history: indexes of odd operator classes are the identity
CREATE TABLE t (k char(10) NOT NULL, v text);
CREATE UNIQUE INDEX ti ON t (k bpchar_pattern_ops DESC);
ALTER TABLE t REPLICA IDENTITY USING INDEX ti;
INSERT INTO t VALUES ('a','x'),('b','y'),('B ','z');
CREATE TABLE u (k text NOT NULL, v text);
CREATE UNIQUE INDEX ui ON u (k text_pattern_ops DESC NULLS LAST);
ALTER TABLE u REPLICA IDENTITY USING INDEX ui;
INSERT INTO u VALUES ('a','x'),('B','y'),('','z');
CREATE TYPE cp AS (a numeric, b text);
CREATE TABLE w (k cp NOT NULL, v text);
CREATE UNIQUE INDEX wi ON w (k record_image_ops);
ALTER TABLE w REPLICA IDENTITY USING INDEX wi;
INSERT INTO w VALUES (ROW(1.0,'x,"y')::cp,'a'),(ROW(1.00,NULL)::cp,'b'),(ROW(NULL,'')::cp,'c'),(ROW(NULL,NULL)::cp,'d');
-- step
UPDATE t SET k = 'a  ' WHERE k='a';
UPDATE u SET v='q';
UPDATE w SET v = v || '!';
-- step
ALTER TABLE t ALTER v TYPE text USING v||'1';
ALTER TABLE u ALTER v TYPE text USING v||'1';
ALTER TABLE w ALTER v TYPE text USING v||'1';
-- step
UPDATE t SET v='n' WHERE k='b';
INSERT INTO w VALUES (ROW(1.000,'x,"y')::cp,'e');
-- step
DELETE FROM w WHERE v = 'e';
-- step
ALTER TYPE cp ADD ATTRIBUTE c int;

-- history: an index with included columns is the identity
CREATE TABLE t (a int NOT NULL, b int NOT NULL, v text, UNIQUE (b,a) INCLUDE (v));
ALTER TABLE t REPLICA IDENTITY USING INDEX t_b_a_v_key;
INSERT INTO t VALUES (1,2,'x'),(2,1,'y');
-- step
UPDATE t SET a = 9 WHERE a = 1;
-- step
UPDATE t SET v = 'inc';
-- step
ALTER TABLE t RENAME a TO c;
ALTER TABLE t RENAME b TO a;
UPDATE t SET a = 77 WHERE c=9;
-- step
ALTER TABLE t DROP v;
-- step
INSERT INTO t VALUES (5,6);

-- history: a generated column under identity FULL, from 17 on
CREATE TABLE t (a int, g int GENERATED ALWAYS AS (a*2) STORED, v text);
ALTER TABLE t REPLICA IDENTITY FULL;
INSERT INTO t(a,v) VALUES (1,'x'),(1,'x'),(2,'y');
-- step
ALTER TABLE t ALTER g SET EXPRESSION AS (a*3);
INSERT INTO t(a,v) VALUES (3,'z');

-- history: a key goes under identity FULL
CREATE TABLE t (id int primary key, v text);
ALTER TABLE t REPLICA IDENTITY FULL;
INSERT INTO t VALUES (1,'a'),(2,'b');
-- step
UPDATE t SET id = id + 10;
-- step
ALTER TABLE t DROP CONSTRAINT t_pkey;
UPDATE t SET v = 'x';
INSERT INTO t VALUES (11,'x'),(11,'x');
-- step
DELETE FROM t WHERE ctid = (SELECT min(ctid) FROM t WHERE id = 11);
-- step
UPDATE t SET v = 'u' WHERE id = 11;
