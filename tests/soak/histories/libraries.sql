-- history: keys of a collation for which letters are equal
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE t (k text COLLATE ci PRIMARY KEY, v text);
CREATE TABLE u (k text COLLATE ci, n int, v text, PRIMARY KEY (n, k));
CREATE TABLE w (k text NOT NULL, v text);
CREATE UNIQUE INDEX wi ON w (k COLLATE ci);
ALTER TABLE w REPLICA IDENTITY USING INDEX wi;
INSERT INTO t VALUES ('A', '1'), ('b', '2'), ('ä', '3'), ('ss', '4'), ('ß', '5');
INSERT INTO u SELECT k, 1, v FROM t;
INSERT INTO w SELECT * FROM t;
-- step
UPDATE t SET k = 'a' WHERE k = 'A';
UPDATE u SET k = 'B' WHERE k = 'b';
UPDATE w SET k = 'SS' WHERE k = 'ss';
-- step
UPDATE t SET v = v || '!' WHERE k = 'A';
DELETE FROM u WHERE k = 'b';
INSERT INTO u VALUES ('b', 1, 'again');
DELETE FROM w WHERE k = 'ß';
-- step
ALTER TABLE t ALTER v TYPE text USING v || 'r';
ALTER TABLE u ALTER v TYPE text USING v || 'r';
ALTER TABLE w ALTER v TYPE text USING v || 'r';
-- step
INSERT INTO t VALUES ('C', 'c') ON CONFLICT DO NOTHING;
INSERT INTO t VALUES ('c', 'c2') ON CONFLICT (k) DO UPDATE SET k = EXCLUDED.k, v = EXCLUDED.v;
ALTER TABLE t ALTER k TYPE text COLLATE "C";
INSERT INTO t VALUES ('C', 'another');
-- step
UPDATE t SET v = 'end';
