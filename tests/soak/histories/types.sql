-- history: a composite within a domain of arrays is altered
CREATE TYPE p AS (a int, b text);
CREATE DOMAIN dp AS p[];
CREATE TABLE t (id int primary key, d dp);
INSERT INTO t VALUES (1, ARRAY[ROW(1,'x')::p]::dp),(2,NULL);
-- step
ALTER TYPE p ADD ATTRIBUTE c text;
-- step
INSERT INTO t VALUES (3, ARRAY[ROW(3,'x','y')::p]::dp);
-- step
ALTER TYPE p DROP ATTRIBUTE b;
-- step
INSERT INTO t VALUES (4, ARRAY[ROW(3,'y')::p]::dp);
-- step
ALTER TYPE p RENAME ATTRIBUTE c TO q;

-- history: a domain over a domain is altered
CREATE DOMAIN d1 AS varchar(10);
CREATE DOMAIN d2 AS d1;
CREATE TABLE t (id int primary key, v d2);
INSERT INTO t VALUES (1,'a'),(2,'b');
-- step
ALTER DOMAIN d1 ADD CHECK (VALUE <> 'zz');
ALTER DOMAIN d2 SET DEFAULT 'q';
-- step
INSERT INTO t (id) VALUES (3);
-- step
ALTER DOMAIN d1 RENAME TO d0;
ALTER DOMAIN d2 SET NOT NULL;
-- step
INSERT INTO t VALUES (4,'x');
-- step
ALTER DOMAIN d2 DROP NOT NULL;
ALTER TABLE t ADD w d2;
-- step
INSERT INTO t VALUES (5,'x','y');

-- history: a column goes from domain to domain to base type
CREATE DOMAIN d1 AS varchar(10);
CREATE DOMAIN d2 AS d1;
CREATE TABLE t (id int primary key, v d2);
INSERT INTO t VALUES (1,'a'),(2,'b');
-- step
ALTER TABLE t ALTER v TYPE d1;
INSERT INTO t VALUES (3,'c');
-- step
ALTER TABLE t ALTER v TYPE varchar(20);
INSERT INTO t VALUES (4,'c');
-- step
ALTER TABLE t ALTER v TYPE text;
INSERT INTO t VALUES (5,'c');

-- history: a range of an enum
CREATE TYPE mood AS ENUM ('sad','ok');
CREATE TYPE mr AS RANGE (subtype=mood);
CREATE TABLE t (id int primary key, r mr, m mood[]);
INSERT INTO t VALUES (1,'[sad,ok]',ARRAY['sad'::mood]);
-- step
ALTER TYPE mood ADD VALUE 'great';
-- step
INSERT INTO t VALUES (2,'[ok,great]',ARRAY['great'::mood]);
-- step
ALTER TYPE mr RENAME TO mr2;
ALTER TYPE mood RENAME TO mood2;
INSERT INTO t VALUES (3,'[sad,ok]',NULL);
-- step
ALTER TYPE mood2 SET SCHEMA pg_catalog;

-- history: an enum is dropped and made anew
CREATE TYPE mood AS ENUM ('sad','ok');
CREATE TABLE t (id int primary key, m mood);
INSERT INTO t VALUES (1,'sad');
-- step
DROP TYPE mood CASCADE;
CREATE TYPE mood AS ENUM ('a','b');
ALTER TABLE t ADD m mood DEFAULT 'b';
INSERT INTO t VALUES (2,'a');
-- step
INSERT INTO t VALUES (3,'b');

-- history: the row type of another table is altered
CREATE TABLE o (x int, y text);
CREATE TABLE t (id int primary key, r o);
INSERT INTO t VALUES (1, ROW(1,'a')::o);
-- step
ALTER TABLE o ADD z int;
-- step
INSERT INTO t VALUES (2, ROW(2,'b',3)::o);
-- step
ALTER TABLE o DROP y;
-- step
INSERT INTO t VALUES (3, ROW(2,3)::o);

-- history: a label is added behind a default
CREATE TYPE mood AS ENUM ('sad','ok');
CREATE TABLE o (id int primary key, m mood);
CREATE TABLE t (id int primary key);
INSERT INTO t VALUES (1);
-- step
ALTER TABLE t ADD m mood DEFAULT 'ok';
INSERT INTO t VALUES (2,'sad');
-- step
ALTER TYPE mood ADD VALUE 'x';
-- step
INSERT INTO t VALUES (3,'x');

-- history: types that few columns have, from 14 on
CREATE TABLE t (id int primary key, a int2vector, b oidvector, c "char", d tid, e xid, f xid8, g pg_lsn, h txid_snapshot, i refcursor, j name, k regclass, l box[], m circle, n "char"[], o path, p inet, q cidr, r macaddr8, s tsquery, u int8multirange, v aclitem[]);
INSERT INTO t(id,a,b,c,d,e,f,g,i,j,l,n,u) VALUES (1,'1 2','3 4','','(0,1)','5','6','0/1','cur','nm','{(1,1),(0,0);(2,2),(1,1)}','{a,NULL}','{[1,2),[5,9)}');
-- step
UPDATE t SET a = '9' WHERE id=1;
-- step
INSERT INTO t(id,c,j) VALUES (2,'\303','x');

-- history: types are renamed and moved
CREATE TYPE md AS ENUM ('a','b');
CREATE TYPE cm AS (x md, y int);
CREATE TABLE t (id int primary key, m md, c cm, ma md[]);
INSERT INTO t VALUES (1,'a',ROW('a',1)::cm,'{a,b}');
-- step
ALTER TYPE md RENAME TO md2;
ALTER TYPE cm SET SCHEMA public;
ALTER TYPE public.cm RENAME TO "cm_{schema}";
INSERT INTO t VALUES (2,'b',NULL,NULL);
-- step
ALTER TYPE md2 RENAME VALUE 'a' TO 'z';
-- step
INSERT INTO t VALUES (3,'z',ROW('z',3)::public."cm_{schema}",'{z}');
-- step
ALTER TYPE md2 ADD VALUE 'q' BEFORE 'z';
-- step
INSERT INTO t VALUES (4,'q',NULL,'{q,NULL}');

-- history: labels within domains and ranges are renamed
CREATE TYPE md AS ENUM ('a','b');
CREATE DOMAIN dmd AS md;
CREATE TYPE rm AS RANGE (subtype = md);
CREATE TABLE t (id int primary key, m dmd, ms dmd[], r rm);
INSERT INTO t VALUES (1,'a','{a}','[a,b]');
CREATE TABLE k (m dmd primary key, v int);
INSERT INTO k VALUES ('a',1),('b',2);
-- step
ALTER TYPE md RENAME VALUE 'a' TO 'zz';
-- step
INSERT INTO t VALUES (2,'zz',NULL,'[zz,b)');
UPDATE k SET v = v + 1;
-- step
UPDATE k SET v = 7 WHERE m::text = 'zz';
