-- history: types are altered between the rows of one transaction
CREATE TABLE t (id int PRIMARY KEY, a int, v text, w text);
ALTER TABLE t ALTER w SET STORAGE EXTERNAL;
INSERT INTO t SELECT g, g, 'v' || g, repeat('w', 5000) FROM generate_series(1, 8) g;
-- step
BEGIN;
UPDATE t SET a = a + 1 WHERE id = 1;
ALTER TABLE t ALTER a TYPE bigint;
UPDATE t SET a = 3000000000 WHERE id = 2;
INSERT INTO t VALUES (9, 9, 'v9', 'short');
SAVEPOINT one;
ALTER TABLE t ALTER a TYPE text USING 'rolled back ' || a;
UPDATE t SET v = a WHERE id = 3;
ROLLBACK TO one;
UPDATE t SET v = 'kept' WHERE id = 3;
ALTER TABLE t ALTER v TYPE varchar(40);
UPDATE t SET v = v || '!' WHERE id < 5;
COMMIT;
-- step
BEGIN;
DELETE FROM t WHERE id = 1;
ALTER TABLE t ALTER a TYPE numeric(14, 2) USING a / 3.0;
INSERT INTO t VALUES (1, 1.5, 'again', repeat('q', 6000));
ALTER TABLE t ALTER a TYPE numeric;
UPDATE t SET a = a * 1.001 WHERE id IN (1, 2);
ALTER TABLE t ALTER id TYPE bigint;
UPDATE t SET id = id + 5000000000 WHERE id > 6;
COMMIT;
-- step
BEGIN;
UPDATE t SET a = 1 WHERE id = 3;
ALTER TABLE t ALTER a TYPE text, ALTER v TYPE text;
UPDATE t SET a = 'text' WHERE id = 4;
ALTER TABLE t ALTER a TYPE int USING length(a);
COMMIT;
-- step
UPDATE t SET v = NULL WHERE id = 5000000007;

-- history: a column is dropped and made anew with its type between the rows of one transaction
CREATE TABLE t (id int PRIMARY KEY, a int, b text DEFAULT 'b');
CREATE TABLE f (a int, b text);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO t SELECT g, g, 'old' FROM generate_series(1, 6) g;
INSERT INTO f VALUES (1, 'x'), (1, 'x'), (2, 'y');
-- step
BEGIN;
UPDATE t SET a = 10 WHERE id = 1;
ALTER TABLE t DROP a;
UPDATE t SET b = 'between' WHERE id = 2;
ALTER TABLE t ADD a int;
UPDATE t SET a = 30 WHERE id = 3;
ALTER TABLE t DROP a;
ALTER TABLE t ADD a int DEFAULT 7;
INSERT INTO t (id) VALUES (7);
COMMIT;
-- step
BEGIN;
INSERT INTO f VALUES (3, 'z');
ALTER TABLE f DROP b;
ALTER TABLE f ADD b text DEFAULT 'x';
DELETE FROM f WHERE ctid = (SELECT min(ctid) FROM f WHERE a = 1);
SAVEPOINT one;
ALTER TABLE f DROP a, ADD a int DEFAULT 1;
DELETE FROM f WHERE ctid = (SELECT min(ctid) FROM f WHERE a = 1);
ROLLBACK TO one;
UPDATE f SET b = 'u' WHERE a = 2;
COMMIT;
-- step
BEGIN;
SAVEPOINT one;
ALTER TABLE t DROP b;
ALTER TABLE t ADD b text DEFAULT 'never';
INSERT INTO t (id) VALUES (8);
ROLLBACK TO one;
INSERT INTO t (id) VALUES (8);
ALTER TABLE t DROP b, ADD b text;
COMMIT;
-- step
BEGIN;
INSERT INTO f VALUES (5, 'first');
ALTER TABLE f DROP b;
INSERT INTO f VALUES (6);
ALTER TABLE f ADD b text DEFAULT 'y';
INSERT INTO f VALUES (7, 'second');
ALTER TABLE f DROP b;
ALTER TABLE f ADD b text DEFAULT 'z';
COMMIT;
-- step
UPDATE t SET b = 'end' WHERE id < 4;
DELETE FROM f WHERE a = 2;

-- history: two tables exchange their names while both are altered in one transaction
CREATE TABLE a (id int PRIMARY KEY, v text, n int);
CREATE TABLE b (id int PRIMARY KEY, v text, n int);
INSERT INTO a SELECT g, 'a' || g, g FROM generate_series(1, 5) g;
INSERT INTO b SELECT g, 'b' || g, -g FROM generate_series(1, 5) g;
-- step
BEGIN;
INSERT INTO a VALUES (10, 'a', 1);
ALTER TABLE a ADD x int DEFAULT 5;
ALTER TABLE b DROP n;
ALTER TABLE a RENAME TO c;
ALTER TABLE b RENAME TO a;
ALTER TABLE c RENAME TO b;
INSERT INTO a VALUES (11, 'was b');
ALTER TABLE a ADD n int DEFAULT 9;
ALTER TABLE b RENAME n TO m;
ALTER TABLE b RENAME v TO n;
INSERT INTO b VALUES (11, 'was a', 1, 1);
UPDATE a SET n = 8 WHERE id < 3;
COMMIT;
-- step
BEGIN;
SAVEPOINT one;
ALTER TABLE a RENAME TO c;
ALTER TABLE b RENAME TO a;
ALTER TABLE c RENAME TO b;
ALTER TABLE b ADD y int DEFAULT 1;
INSERT INTO b VALUES (20, 'rolled back', 1, 1);
UPDATE a SET x = 0;
ROLLBACK TO one;
UPDATE b SET m = 0 WHERE id = 2;
ALTER TABLE a RENAME TO c;
ALTER TABLE b RENAME TO a;
ALTER TABLE c RENAME TO b;
ALTER TABLE a ALTER m TYPE bigint;
DELETE FROM b WHERE id = 1;
DELETE FROM a WHERE id = 2;
COMMIT;
-- step
UPDATE a SET m = 5000000000 WHERE id = 3;
UPDATE b SET v = v || '!';

-- history: labels are replaced by those of a new type, as frameworks do
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE t (id int PRIMARY KEY, m mood DEFAULT 'ok', ms mood[]);
CREATE TABLE k (m mood PRIMARY KEY, n int);
CREATE TABLE r (id int, m mood, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 PARTITION OF r DEFAULT;
INSERT INTO t VALUES (1, 'sad', '{ok,sad}'), (2, 'ok', NULL);
INSERT INTO k VALUES ('sad', 1), ('ok', 2);
INSERT INTO r VALUES (1, 'sad'), (11, 'ok'), (12, 'sad');
-- step
BEGIN;
INSERT INTO t VALUES (3, 'sad', '{ok}');
ALTER TYPE mood RENAME TO mood_old;
CREATE TYPE mood AS ENUM ('ok', 'fine', 'sad');
ALTER TABLE t ALTER m DROP DEFAULT, ALTER m TYPE mood USING m::text::mood, ALTER ms TYPE mood[] USING ms::text[]::mood[];
ALTER TABLE t ALTER m SET DEFAULT 'fine';
ALTER TABLE k ALTER m TYPE mood USING m::text::mood;
UPDATE r SET m = 'ok' WHERE id = 11;
ALTER TABLE r ALTER m TYPE mood USING (CASE m WHEN 'sad' THEN 'fine' ELSE m::text END)::mood;
DROP TYPE mood_old;
INSERT INTO t (id, ms) VALUES (4, '{fine,sad}');
INSERT INTO k VALUES ('fine', 3);
UPDATE k SET n = n + 10;
COMMIT;
-- step
BEGIN;
UPDATE t SET ms = ms || m;
ALTER TYPE mood ADD VALUE 'great' AFTER 'fine';
INSERT INTO r VALUES (2, 'sad');
COMMIT;
-- step
BEGIN;
INSERT INTO t VALUES (6, 'great', '{great}');
SAVEPOINT one;
ALTER TYPE mood RENAME VALUE 'great' TO 'lost';
INSERT INTO t VALUES (7, 'lost', '{lost}');
ROLLBACK TO one;
ALTER TYPE mood RENAME VALUE 'great' TO 'best';
INSERT INTO t VALUES (7, 'best', '{best}');
DELETE FROM k WHERE m = 'fine';
COMMIT;
-- step
INSERT INTO k VALUES ('best', 4);
UPDATE r SET m = 'best' WHERE id = 1;

-- history: domains of enums, arrays and composites over each other are altered among their rows
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN calm AS mood;
CREATE DOMAIN moods AS calm[];
CREATE TYPE entry AS (m calm, ms moods, n int);
CREATE DOMAIN entries AS entry[];
CREATE TABLE t (id int PRIMARY KEY, c calm, ms moods, e entry, es entries);
INSERT INTO t VALUES (1, 'sad', '{sad,ok}', '(sad,{ok},1)', '{"(sad,{sad},1)","(ok,,2)"}'), (2, NULL, '{NULL}', NULL, '{}');
-- step
BEGIN;
INSERT INTO t VALUES (3, 'sad', '{sad}', '(sad,{sad},3)', NULL);
ALTER TYPE mood RENAME VALUE 'sad' TO 'low';
INSERT INTO t VALUES (4, 'low', '{low}', '(low,{low},4)', '{"(low,{ok},4)"}');
ALTER TYPE entry RENAME ATTRIBUTE n TO count;
ALTER TYPE entry ADD ATTRIBUTE n text;
INSERT INTO t VALUES (5, 'ok', '{}', '(ok,{},5,five)', '{"(low,{ok},5,five)"}');
COMMIT;
-- step
BEGIN;
SAVEPOINT one;
ALTER TYPE mood RENAME VALUE 'low' TO 'lost';
ALTER TYPE entry DROP ATTRIBUTE count;
UPDATE t SET ms = ms || 'lost'::calm;
ROLLBACK TO one;
UPDATE t SET ms = ms || 'low'::calm;
ALTER TABLE t ALTER c TYPE mood, ALTER es TYPE entry[];
INSERT INTO t VALUES (6, 'low', '{low}', '(low,{low},6,six)', '{"(low,,6,)"}');
COMMIT;
-- step
ALTER TYPE entry DROP ATTRIBUTE count;
ALTER TYPE entry ADD ATTRIBUTE count bigint;
INSERT INTO t VALUES (7, 'low', '{ok}', '(low,{low},seven,7)', NULL);
-- step
ALTER TABLE t ALTER ms TYPE calm[];
UPDATE t SET c = 'ok' WHERE id = 1;

-- history: partitioned tables get columns of every kind among their rows
CREATE TABLE r (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 (gone int, v text, gone2 text, id int NOT NULL, PRIMARY KEY (id));
ALTER TABLE r2 DROP gone, DROP gone2;
ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20);
INSERT INTO r SELECT g, 'v' || g FROM generate_series(5, 14) g;
-- step
BEGIN;
INSERT INTO r VALUES (1, 'before');
ALTER TABLE r ADD s serial;
INSERT INTO r VALUES (15, 'serial');
ALTER TABLE r ADD at timestamptz DEFAULT now();
UPDATE r SET v = v || '!' WHERE id IN (5, 14);
COMMIT;
-- step
BEGIN;
UPDATE r SET v = 'before' WHERE id = 6;
ALTER TABLE r ADD g int GENERATED ALWAYS AS (id * 2) STORED;
INSERT INTO r (id, v) VALUES (16, 'generated');
SAVEPOINT one;
ALTER TABLE r DROP g;
ALTER TABLE r DROP v;
INSERT INTO r (id) VALUES (17);
ROLLBACK TO one;
ALTER TABLE r ADD n int DEFAULT 3;
UPDATE r SET id = id + 10 WHERE id = 7;
COMMIT;
-- step
BEGIN;
ALTER TABLE r2 ALTER n SET DEFAULT 4;
INSERT INTO r2 (id) VALUES (18);
INSERT INTO r (id) VALUES (2);
ALTER TABLE r ALTER n TYPE bigint;
UPDATE r SET n = 5000000000 WHERE id IN (5, 15);
COMMIT;
-- step
BEGIN;
ALTER TABLE r DROP n;
UPDATE r SET v = 'without' WHERE id = 8;
ALTER TABLE r ADD n bigint DEFAULT 6;
INSERT INTO r (id) VALUES (3), (19);
ALTER TABLE r RENAME v TO x;
ALTER TABLE r RENAME s TO v;
ALTER TABLE r RENAME x TO s;
DELETE FROM r WHERE id = 5;
COMMIT;
-- step
UPDATE r SET n = 0, s = 'end' WHERE id IN (1, 14);

-- history: a partition of other columns comes and goes between savepoints
CREATE TABLE r (id int NOT NULL, v text, n int DEFAULT 1, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE x (gone text, n int, id int NOT NULL, gone2 int, v text, PRIMARY KEY (id));
ALTER TABLE x DROP gone, DROP gone2;
INSERT INTO r (id, v) VALUES (1, 'r'), (2, 'r');
INSERT INTO x (id, v) VALUES (11, 'x'), (12, 'x');
-- step
BEGIN;
INSERT INTO x (id, v, n) VALUES (15, 'before', 1);
SAVEPOINT one;
ALTER TABLE r ATTACH PARTITION x FOR VALUES FROM (10) TO (20);
INSERT INTO r VALUES (16, 'rolled back', 1);
UPDATE r SET id = 17 WHERE id = 1;
ROLLBACK TO one;
INSERT INTO x (id, v, n) VALUES (17, 'alone', 1);
INSERT INTO r VALUES (3, 'r', 3);
COMMIT;
-- step
BEGIN;
ALTER TABLE r ATTACH PARTITION x FOR VALUES FROM (10) TO (20);
UPDATE r SET v = 'both' WHERE id > 2;
UPDATE r SET id = 18 WHERE id = 1;
SAVEPOINT one;
ALTER TABLE r DETACH PARTITION x;
DELETE FROM x WHERE id = 15;
ROLLBACK TO one;
DELETE FROM r WHERE id = 17;
COMMIT;
-- step
BEGIN;
ALTER TABLE r DETACH PARTITION x;
UPDATE x SET v = 'out';
ALTER TABLE r ATTACH PARTITION x FOR VALUES FROM (10) TO (30);
COMMIT;
-- step
BEGIN;
ALTER TABLE r DETACH PARTITION x;
TRUNCATE x;
ALTER TABLE x ADD m int DEFAULT 5;
INSERT INTO x (id, v) VALUES (25, 'filled again');
ALTER TABLE r ADD m int DEFAULT 6;
ALTER TABLE r ATTACH PARTITION x FOR VALUES FROM (10) TO (30);
INSERT INTO r VALUES (26, 'by the root');
COMMIT;
-- step
UPDATE r SET v = v || '!';

-- history: columns of the key and others exchange their names among rows of one transaction
CREATE TABLE t (id int, k int, v int, w text, PRIMARY KEY (id, k));
CREATE TABLE s (id int PRIMARY KEY, n int);
ALTER TABLE t ALTER w SET STORAGE EXTERNAL;
INSERT INTO t SELECT g, -g, g * 10, repeat('w', 4000) FROM generate_series(1, 8) g;
INSERT INTO s SELECT g, 100 + g FROM generate_series(1, 8) g;
-- step
BEGIN;
UPDATE t SET v = v + 1 WHERE id = 1;
ALTER TABLE t RENAME id TO x;
ALTER TABLE t RENAME k TO id;
ALTER TABLE t RENAME x TO k;
UPDATE t SET id = -50 WHERE k = 2;
INSERT INTO t VALUES (9, -9, 90, 'nine');
DELETE FROM t WHERE id = -3;
COMMIT;
-- step
BEGIN;
DELETE FROM s WHERE id = 1;
ALTER TABLE s RENAME id TO x;
ALTER TABLE s RENAME n TO id;
ALTER TABLE s RENAME x TO n;
UPDATE s SET n = 20 WHERE id = 102;
SAVEPOINT one;
ALTER TABLE s RENAME id TO x;
ALTER TABLE s RENAME n TO id;
ALTER TABLE s RENAME x TO n;
UPDATE s SET id = 30 WHERE id = 3;
ROLLBACK TO one;
UPDATE s SET id = 3 WHERE n = 4;
INSERT INTO s VALUES (1, 1);
COMMIT;
-- step
BEGIN;
ALTER TABLE t RENAME v TO x;
ALTER TABLE t RENAME k TO v;
ALTER TABLE t RENAME x TO k;
UPDATE t SET v = v + 100 WHERE id < -5;
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ADD PRIMARY KEY (k);
UPDATE t SET k = k + 1;
COMMIT;
-- step
UPDATE t SET w = 'short' WHERE v = 1;
UPDATE s SET id = id + 1;

-- history: tables are made, dropped and made anew among savepoints
SELECT 1;
-- step
BEGIN;
CREATE TABLE t AS SELECT g AS id, 'v' || g AS v FROM generate_series(1, 20) g;
ALTER TABLE t ADD PRIMARY KEY (id);
UPDATE t SET v = 'u' WHERE id < 5;
SAVEPOINT one;
DROP TABLE t;
CREATE TABLE t (id text PRIMARY KEY);
INSERT INTO t VALUES ('rolled back');
ROLLBACK TO one;
DELETE FROM t WHERE id = 20;
CREATE TABLE l (LIKE t INCLUDING ALL, n int GENERATED ALWAYS AS IDENTITY);
INSERT INTO l (id, v) SELECT * FROM t;
DROP TABLE t;
CREATE TABLE t (id int PRIMARY KEY, v text, x int DEFAULT 3);
INSERT INTO t SELECT id, v FROM l WHERE id > 3;
COMMIT;
-- step
BEGIN;
SAVEPOINT one;
CREATE TABLE s (id int PRIMARY KEY);
INSERT INTO s VALUES (1);
ROLLBACK TO one;
CREATE TABLE s (id text PRIMARY KEY, v int);
INSERT INTO s VALUES ('one', 1);
SELECT * INTO i FROM l;
INSERT INTO i VALUES (50, 'i', 50);
CREATE TABLE p (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p DEFAULT;
INSERT INTO p SELECT id, v FROM l;
UPDATE p SET id = id + 50 WHERE id < 5;
CREATE TABLE h (z int, PRIMARY KEY (id)) INHERITS (l);
INSERT INTO h (id, v, n) VALUES (70, 'h', 1);
UPDATE l SET v = v || '!' WHERE id > 15;
COMMIT;
-- step
BEGIN;
SAVEPOINT one;
DROP TABLE l CASCADE;
DROP TABLE p;
CREATE TABLE p (id int PRIMARY KEY);
INSERT INTO p VALUES (1);
ROLLBACK TO one;
UPDATE p SET v = 'kept' WHERE id > 50;
DELETE FROM l WHERE id < 3;
ALTER TABLE l RENAME TO l_old;
CREATE TABLE l AS TABLE l_old WITH NO DATA;
INSERT INTO l VALUES (1, 'n', 1);
COMMIT;
-- step
INSERT INTO i VALUES (51, 'i', 51);
INSERT INTO l VALUES (2, 'n', 2);

-- history: frozen rows among savepoints and added columns
CREATE TABLE t (id int PRIMARY KEY, v text DEFAULT 'd');
CREATE TABLE f (id int, v text DEFAULT 'd');
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO t VALUES (1, 'a'), (2, 'b');
INSERT INTO f VALUES (1, 'a'), (1, 'a');
-- step
BEGIN;
INSERT INTO t VALUES (100, 'lost');
TRUNCATE t, f;
COPY t (id) FROM PROGRAM 'seq 1 200' (FREEZE);
COPY f (id) FROM PROGRAM 'seq 1 200' (FREEZE);
ALTER TABLE t ADD n int DEFAULT 5;
ALTER TABLE f ADD n int DEFAULT 5;
UPDATE t SET n = 6 WHERE id < 20;
DELETE FROM f WHERE id < 20;
COMMIT;
-- step
BEGIN;
SAVEPOINT one;
TRUNCATE t;
COPY t (id) FROM PROGRAM 'seq 1 300' (FREEZE);
ROLLBACK TO one;
UPDATE t SET v = 'kept' WHERE id = 150;
SAVEPOINT two;
TRUNCATE f;
COPY f (id) FROM PROGRAM 'seq 1 10' (FREEZE);
RELEASE two;
INSERT INTO f VALUES (11);
COMMIT;
-- step
BEGIN;
CREATE TABLE n (id int PRIMARY KEY, v text DEFAULT 'n');
COPY n (id) FROM PROGRAM 'seq 1 50' (FREEZE);
ALTER TABLE n ADD m int DEFAULT 3;
UPDATE n SET v = 'u' WHERE id < 5;
ALTER TABLE t ALTER v TYPE text USING upper(v);
TRUNCATE t;
COPY t (id) FROM PROGRAM 'seq 1 20' (FREEZE);
ALTER TABLE t DROP n;
COMMIT;
-- step
DELETE FROM f WHERE id = 5;
UPDATE t SET v = 'end' WHERE id = 5;

-- history: tables are altered and exchange their names while one is unlogged
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE u (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 't'), (2, 't');
INSERT INTO u VALUES (1, 'u'), (2, 'u');
-- step
ALTER TABLE t SET UNLOGGED;
ALTER TABLE t ADD n int DEFAULT 4;
INSERT INTO t VALUES (3, 'unlogged');
-- step
BEGIN;
ALTER TABLE t RENAME v TO w;
ALTER TABLE t RENAME TO x;
ALTER TABLE u RENAME TO t;
INSERT INTO t VALUES (3, 'was u');
INSERT INTO x VALUES (4, 'was t', 4);
COMMIT;
-- step
BEGIN;
ALTER TABLE x SET LOGGED;
ALTER TABLE x DROP n;
ALTER TABLE x ADD n int DEFAULT 5;
INSERT INTO x VALUES (5, 'logged');
COMMIT;
-- step
BEGIN;
SAVEPOINT one;
ALTER TABLE t SET UNLOGGED;
INSERT INTO t VALUES (6, 'rolled back');
ROLLBACK TO one;
INSERT INTO t VALUES (6, 'stays');
ALTER TABLE x SET UNLOGGED;
UPDATE x SET w = 'rewritten' WHERE id = 1;
ALTER TABLE x SET LOGGED;
COMMIT;
-- step
UPDATE x SET n = 6 WHERE id < 4;

-- history: columns of a grandparent change among rows of its descendants
CREATE TABLE p (id int PRIMARY KEY, a int);
CREATE TABLE c (z text, PRIMARY KEY (id)) INHERITS (p);
CREATE TABLE g (PRIMARY KEY (id)) INHERITS (c);
INSERT INTO p VALUES (1, 1);
INSERT INTO c VALUES (2, 2, 'z');
INSERT INTO g VALUES (3, 3, 'z');
-- step
BEGIN;
INSERT INTO g VALUES (4, 4, 'before');
ALTER TABLE p ADD b int DEFAULT 2;
INSERT INTO g (id, a) VALUES (5, 5);
ALTER TABLE p ALTER a TYPE bigint;
UPDATE p SET a = 3000000000 WHERE id IN (1, 3);
SAVEPOINT one;
ALTER TABLE g NO INHERIT c;
ALTER TABLE p DROP b;
UPDATE p SET a = 0;
ROLLBACK TO one;
ALTER TABLE p RENAME a TO aa;
ALTER TABLE c DROP z;
ALTER TABLE c ADD z text DEFAULT 'zz';
UPDATE c SET aa = aa + 1;
COMMIT;
-- step
BEGIN;
ALTER TABLE g NO INHERIT c;
ALTER TABLE g DROP z;
ALTER TABLE g INHERIT p;
ALTER TABLE p ADD n timestamptz DEFAULT now();
ALTER TABLE ONLY p DROP b;
UPDATE p SET aa = 1;
TRUNCATE ONLY p;
INSERT INTO c (id, b) VALUES (6, 6);
COMMIT;
-- step
DELETE FROM p WHERE id < 5;

-- history: expressions come and go among rows of one transaction, from 17 on
CREATE TABLE t (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED, b text);
INSERT INTO t (id, a, b) VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 3, 'z');
-- step
BEGIN;
INSERT INTO t (id, a) VALUES (4, 4);
ALTER TABLE t ALTER g SET EXPRESSION AS (a * 3);
INSERT INTO t (id, a) VALUES (5, 5);
SAVEPOINT one;
ALTER TABLE t ALTER g DROP EXPRESSION;
UPDATE t SET g = -1;
ROLLBACK TO one;
UPDATE t SET b = 'kept' WHERE id = 1;
COMMIT;
-- step
BEGIN;
ALTER TABLE t ALTER g DROP EXPRESSION;
UPDATE t SET g = 0 WHERE id = 2;
ALTER TABLE t RENAME g TO h;
ALTER TABLE t ADD g int GENERATED ALWAYS AS (id + a) STORED;
INSERT INTO t (id, a, h) VALUES (6, 6, 6);
COMMIT;
-- step
BEGIN;
UPDATE t SET a = 7 WHERE id = 3;
ALTER TABLE t DROP h;
ALTER TABLE t ALTER g DROP EXPRESSION;
ALTER TABLE t ALTER g TYPE bigint USING g * 1000;
UPDATE t SET a = 8 WHERE id = 4;
COMMIT;

-- history: an extension moves, goes with its columns and comes again
CREATE EXTENSION IF NOT EXISTS seg SCHEMA public;
CREATE SCHEMA {schema}_x;
CREATE TABLE t (id int PRIMARY KEY, s public.seg, v text);
INSERT INTO t VALUES (1, '1 .. 2', 'a'), (2, NULL, 'b');
-- step
BEGIN;
INSERT INTO t VALUES (3, '<1.50', 'c');
ALTER EXTENSION seg SET SCHEMA {schema}_x;
INSERT INTO t VALUES (4, '>2', 'd');
COMMIT;
-- step
BEGIN;
UPDATE t SET v = 'before' WHERE id = 1;
DROP EXTENSION seg CASCADE;
UPDATE t SET v = 'after' WHERE id = 2;
CREATE EXTENSION seg SCHEMA public;
ALTER TABLE t ADD s public.seg DEFAULT '5 .. 6';
INSERT INTO t (id) VALUES (5);
COMMIT;
-- step
UPDATE t SET s = '7' WHERE id = 4;

-- history: a length is altered by hand in the catalogue
CREATE TABLE t (id int PRIMARY KEY, v varchar(5), n numeric(6, 2));
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2.50);
-- step
UPDATE pg_attribute SET atttypmod = 24 WHERE attrelid = 't'::regclass AND attname = 'v';
UPDATE pg_attribute SET atttypmod = -1 WHERE attrelid = 't'::regclass AND attname = 'n';
-- step
INSERT INTO t VALUES (3, 'longer than five', 1e20);
UPDATE t SET v = v || ' and more' WHERE id = 1;
-- step
ALTER TABLE t ALTER v TYPE text;
UPDATE t SET n = n + 0.001 WHERE id = 2;

-- history: columns that look alike come, go and change places among rows of one transaction
CREATE TABLE t (id int PRIMARY KEY, a int, b int);
CREATE TABLE f (id int, a int, b int);
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE TABLE r (id int PRIMARY KEY, a int, b int) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (25);
CREATE TABLE r2 (b int, gone int, a int, id int NOT NULL, PRIMARY KEY (id));
ALTER TABLE r2 DROP gone;
ALTER TABLE r ATTACH PARTITION r2 DEFAULT;
INSERT INTO t SELECT g, g, -g FROM generate_series(1, 50, 7) g;
INSERT INTO f SELECT g, g, -g FROM generate_series(1, 50, 7) g;
INSERT INTO r SELECT g, g, -g FROM generate_series(1, 50, 7) g;
-- step
BEGIN;
INSERT INTO t VALUES (101, 1101, 2101);
INSERT INTO f VALUES (101, 1101, 2101);
INSERT INTO r VALUES (101, 1101, 2101);
ALTER TABLE t ADD c int DEFAULT 1;
ALTER TABLE f ADD c int DEFAULT 1;
ALTER TABLE r ADD c int DEFAULT 1;
INSERT INTO t VALUES (102, 1102, 2102, 3102);
INSERT INTO f VALUES (102, 1102, 2102, 3102);
INSERT INTO r VALUES (102, 1102, 2102, 3102);
ALTER TABLE t RENAME b TO d;
ALTER TABLE f RENAME b TO d;
ALTER TABLE r RENAME b TO d;
ALTER TABLE t RENAME c TO b;
ALTER TABLE f RENAME c TO b;
ALTER TABLE r RENAME c TO b;
INSERT INTO t VALUES (103, 1103, 2103, 3103);
INSERT INTO f VALUES (103, 1103, 2103, 3103);
INSERT INTO r VALUES (103, 1103, 2103, 3103);
ALTER TABLE t DROP d;
ALTER TABLE f DROP d;
ALTER TABLE r DROP d;
INSERT INTO t VALUES (104, 1104, 2104);
INSERT INTO f VALUES (104, 1104, 2104);
INSERT INTO r VALUES (104, 1104, 2104);
ALTER TABLE t ADD c int DEFAULT 2;
ALTER TABLE f ADD c int DEFAULT 2;
ALTER TABLE r ADD c int DEFAULT 2;
ALTER TABLE t RENAME a TO x;
ALTER TABLE f RENAME a TO x;
ALTER TABLE r RENAME a TO x;
ALTER TABLE t RENAME c TO a;
ALTER TABLE f RENAME c TO a;
ALTER TABLE r RENAME c TO a;
INSERT INTO t VALUES (105, 1105, 2105, 3105);
INSERT INTO f VALUES (105, 1105, 2105, 3105);
INSERT INTO r VALUES (105, 1105, 2105, 3105);
ALTER TABLE t DROP x;
ALTER TABLE f DROP x;
ALTER TABLE r DROP x;
COMMIT;
-- step
BEGIN;
INSERT INTO t VALUES (106, 1106, 2106);
INSERT INTO f VALUES (106, 1106, 2106);
INSERT INTO r VALUES (106, 1106, 2106);
SAVEPOINT one;
ALTER TABLE t DROP a;
ALTER TABLE f DROP a;
ALTER TABLE r DROP a;
ALTER TABLE t ADD a int DEFAULT 5;
ALTER TABLE f ADD a int DEFAULT 5;
ALTER TABLE r ADD a int DEFAULT 5;
INSERT INTO t VALUES (107, 1107, 2107);
INSERT INTO f VALUES (107, 1107, 2107);
INSERT INTO r VALUES (107, 1107, 2107);
ROLLBACK TO one;
INSERT INTO t VALUES (108, 1108, 2108);
INSERT INTO f VALUES (108, 1108, 2108);
INSERT INTO r VALUES (108, 1108, 2108);
ALTER TABLE t DROP b;
ALTER TABLE f DROP b;
ALTER TABLE r DROP b;
ALTER TABLE t ADD b int DEFAULT 6;
ALTER TABLE f ADD b int DEFAULT 6;
ALTER TABLE r ADD b int DEFAULT 6;
UPDATE t SET b = 0 WHERE id IN (8, 102);
UPDATE f SET b = 0 WHERE id IN (8, 102);
UPDATE r SET b = 0 WHERE id IN (8, 102);
COMMIT;
-- step
BEGIN;
INSERT INTO t VALUES (109, 1109, 2109);
INSERT INTO f VALUES (109, 1109, 2109);
INSERT INTO r VALUES (109, 1109, 2109);
ALTER TABLE t DROP a, DROP b, ADD b int DEFAULT 8, ADD a int DEFAULT 9;
ALTER TABLE f DROP a, DROP b, ADD b int DEFAULT 8, ADD a int DEFAULT 9;
ALTER TABLE r DROP a, DROP b, ADD b int DEFAULT 8, ADD a int DEFAULT 9;
INSERT INTO t VALUES (110, 1110, 2110);
INSERT INTO f VALUES (110, 1110, 2110);
INSERT INTO r VALUES (110, 1110, 2110);
ALTER TABLE t ALTER a SET DEFAULT 10;
ALTER TABLE f ALTER a SET DEFAULT 10;
ALTER TABLE r ALTER a SET DEFAULT 10;
DELETE FROM t WHERE id IN (15, 103);
DELETE FROM f WHERE id IN (15, 103);
DELETE FROM r WHERE id IN (15, 103);
COMMIT;
-- step
BEGIN;
INSERT INTO t VALUES (111, 1111, 2111);
INSERT INTO f VALUES (111, 1111, 2111);
INSERT INTO r VALUES (111, 1111, 2111);
ALTER TABLE t DROP a;
ALTER TABLE f DROP a;
ALTER TABLE r DROP a;
ALTER TABLE t ADD a bigint DEFAULT 5;
ALTER TABLE f ADD a bigint DEFAULT 5;
ALTER TABLE r ADD a bigint DEFAULT 5;
INSERT INTO t VALUES (112, 1112, 2112);
INSERT INTO f VALUES (112, 1112, 2112);
INSERT INTO r VALUES (112, 1112, 2112);
ALTER TABLE t DROP a;
ALTER TABLE f DROP a;
ALTER TABLE r DROP a;
ALTER TABLE t ADD a int DEFAULT 6;
ALTER TABLE f ADD a int DEFAULT 6;
ALTER TABLE r ADD a int DEFAULT 6;
INSERT INTO t VALUES (113, 1113, 2113);
INSERT INTO f VALUES (113, 1113, 2113);
INSERT INTO r VALUES (113, 1113, 2113);
COMMIT;
-- step
UPDATE t SET id = id + 1000 WHERE id > 105;
UPDATE f SET id = id + 1000 WHERE id > 105;
UPDATE r SET id = id + 1000 WHERE id > 105;

-- history: a column is made again behind one that goes among rows of one transaction
CREATE TABLE t (id int PRIMARY KEY, a int, b int, c int);
CREATE TABLE f (a int, b int, c int);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO t SELECT g, g, 10 + g, 20 + g FROM generate_series(1, 5) g;
INSERT INTO f SELECT a, b, c FROM t;
-- step
BEGIN;
ALTER TABLE t DROP c;
ALTER TABLE f DROP c;
INSERT INTO t VALUES (6, 6, 16);
INSERT INTO f VALUES (6, 16);
ALTER TABLE t DROP b;
ALTER TABLE f DROP b;
ALTER TABLE t ADD b int DEFAULT 7;
ALTER TABLE f ADD b int DEFAULT 7;
COMMIT;
-- step
BEGIN;
INSERT INTO t VALUES (7, 7, 17);
INSERT INTO f VALUES (7, 17);
ALTER TABLE t DROP a;
ALTER TABLE f DROP a;
ALTER TABLE t RENAME b TO a;
ALTER TABLE f RENAME b TO a;
ALTER TABLE t ADD b int DEFAULT 8;
ALTER TABLE f ADD b int DEFAULT 8;
INSERT INTO t VALUES (8, 8, 18);
INSERT INTO f VALUES (8, 18);
COMMIT;
-- step
UPDATE t SET b = 0 WHERE id = 6;
DELETE FROM f WHERE a = 16;
