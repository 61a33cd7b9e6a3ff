-- history: types without a rewrite over values that no number and no date has
SET TimeZone = 'UTC';
CREATE TABLE t (id int PRIMARY KEY, n numeric(8, 2), at timestamptz, ts timestamp, i interval(2), v varchar(10), b varbit(5), x text, n2 numeric(38, 3), t3 time(3));
ALTER TABLE t ALTER x SET STORAGE EXTERNAL;
INSERT INTO t VALUES (1, 'NaN', 'infinity', '-infinity', '1.25 s', 'a', B'1', repeat('x', 5000), 1.5, '24:00:00');
INSERT INTO t VALUES (2, 1.50, '0044-03-15 12:00:00+00 BC', '0044-03-15 12:00:00 BC', '-178000000 years', '', B'', repeat('y', 5000), 'NaN', '10:00:00.123');
INSERT INTO t VALUES (3, NULL, '294276-12-31 23:59:59.999999+00', '294276-12-31 23:59:59.999999', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO t VALUES (4, 999999.99, '2000-01-01 00:00:00.123456+00', '2000-01-01 00:00:00.123456', '1 day 0.1 s', 'abcdefghij', B'10101', 'short', 99999999999999999999999999999999999.999, '00:00:00');
-- step
SET TimeZone = 'UTC';
ALTER TABLE t ALTER n TYPE numeric(10, 2), ALTER at TYPE timestamp, ALTER ts TYPE timestamptz, ALTER i TYPE interval, ALTER v TYPE text;
UPDATE t SET id = id + 10 WHERE id = 1;
-- step
ALTER TABLE t ALTER n TYPE numeric, ALTER b TYPE varbit, ALTER n2 TYPE numeric(40, 3), ALTER t3 TYPE time;
UPDATE t SET v = v || '!' WHERE id = 2;
INSERT INTO t VALUES (5, 1e100, 'infinity', 'infinity', '2 years', 'long enough', B'1111111', NULL, 'NaN', '23:59:59.999999');
-- step
SET TimeZone = 'UTC';
ALTER TABLE t ALTER at TYPE timestamptz, ALTER ts TYPE timestamp;
UPDATE t SET n = n + 0.5 WHERE id IN (2, 4);
ALTER TABLE t ALTER v TYPE varchar;
ALTER TABLE t ALTER v TYPE bpchar;
UPDATE t SET i = '3 s' WHERE id = 3;

-- history: keys get types without a rewrite
SET TimeZone = 'UTC';
CREATE TABLE n (k numeric(6, 2), v text, PRIMARY KEY (k));
CREATE TABLE a (k timestamptz, v text, PRIMARY KEY (k));
CREATE TABLE c (k varchar(5), j varchar(5), v text, PRIMARY KEY (j, k));
CREATE DOMAIN code AS varchar(5);
CREATE TABLE d (k code, v text, PRIMARY KEY (k));
INSERT INTO n VALUES (1, 'a'), (2.50, 'b'), ('NaN', 'n');
INSERT INTO a VALUES ('infinity', 'i'), ('2000-01-01 00:00:00+00', 'z'), ('0001-01-01 00:00:00+00 BC', 'b');
INSERT INTO c VALUES ('a', 'b', 'x'), ('', ' ', 'y');
INSERT INTO d VALUES ('a', 'x'), ('b', 'y');
-- step
SET TimeZone = 'UTC';
ALTER TABLE n ALTER k TYPE numeric(8, 2);
ALTER TABLE a ALTER k TYPE timestamp;
ALTER TABLE c ALTER k TYPE text;
ALTER TABLE d ALTER k TYPE varchar(9);
UPDATE n SET v = v || '1';
UPDATE a SET v = v || '1';
UPDATE c SET v = v || '1';
UPDATE d SET v = v || '1';
-- step
UPDATE n SET k = k + 1 WHERE k < 5;
UPDATE a SET k = '2000-01-02' WHERE v = 'z1';
DELETE FROM a WHERE k = 'infinity';
UPDATE c SET k = k || 'longer than five';
UPDATE d SET k = k || 'longer';
-- step
ALTER TABLE n ALTER k TYPE numeric;
ALTER TABLE c ALTER j TYPE varchar(20), ALTER k TYPE varchar;
ALTER TABLE d ALTER k TYPE text;
DELETE FROM n WHERE k = 2;
INSERT INTO n VALUES (2.000, 'three zeros');
UPDATE d SET v = 'z' WHERE k = 'alonger';
-- step
UPDATE n SET k = 2.00 WHERE v = 'three zeros';
UPDATE c SET j = j || '!', v = NULL;

-- history: older values of columns whose type is altered later
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a'), (2, 'b');
-- step
ALTER TABLE t ADD n numeric(5, 2) DEFAULT 1.5, ADD m numeric(5, 2) DEFAULT 'NaN', ADD s varchar(5) DEFAULT 'five', ADD at timestamptz DEFAULT 'infinity';
INSERT INTO t (id) VALUES (3);
-- step
ALTER TABLE t ALTER n TYPE numeric, ALTER m TYPE numeric, ALTER s TYPE text;
UPDATE t SET v = 'x' WHERE id = 1;
-- step
ALTER TABLE t ADD z numeric(38, 0) DEFAULT 7, ADD y numeric(40, 0) DEFAULT 8;
ALTER TABLE t ALTER z TYPE numeric(50, 0);
ALTER TABLE t RENAME z TO w;
INSERT INTO t (id) VALUES (4);
-- step
ALTER TABLE t ADD u int[] DEFAULT '{1,2}', ADD q int[] DEFAULT '[0:1]={1,2}', ADD r text[] DEFAULT '{}';
ALTER TABLE t DROP n;
ALTER TABLE t ADD n int DEFAULT 9;
UPDATE t SET q = '{3}' WHERE id = 2;
-- step
DELETE FROM t WHERE id = 3;
UPDATE t SET id = id + 10;

-- history: types that name objects come of numbers
CREATE TABLE t (id int PRIMARY KEY, o oid, n int, c cidr, v text);
INSERT INTO t VALUES (1, 'pg_class'::regclass, 1, '10.0.0.0/8', 'a'), (2, 23, 2, '10.1.2.3', 'b'), (3, 4294967295, -1, '::1', NULL);
-- step
ALTER TABLE t ALTER o TYPE regclass;
-- step
ALTER TABLE t ALTER n TYPE oid;
UPDATE t SET v = 'x' WHERE id = 1;
-- step
ALTER TABLE t ALTER c TYPE inet;
-- step
ALTER TABLE t ALTER o TYPE oid;
UPDATE t SET v = 'y' WHERE id = 2;
