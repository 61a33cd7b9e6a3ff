-- history: prepared transactions have DDL
CREATE TABLE t (id int primary key, v text);
INSERT INTO t VALUES (1,'a');
CREATE TABLE g (id int primary key);
INSERT INTO g VALUES (1);
CREATE TABLE tr (id int primary key);
INSERT INTO tr VALUES (1),(2);
CREATE TABLE rn (id int primary key, a int, b int);
INSERT INTO rn VALUES (1,1,2);
-- step
BEGIN;
INSERT INTO t VALUES (2,'p');
ALTER TABLE t ADD c int DEFAULT 5;
INSERT INTO t VALUES (3,'q',6);
CREATE TABLE born (id int primary key, v text DEFAULT 'z');
INSERT INTO born VALUES (1,'n');
DROP TABLE g;
TRUNCATE tr;
INSERT INTO tr VALUES (9);
ALTER TABLE rn RENAME a TO x;
ALTER TABLE rn RENAME b TO a;
ALTER TABLE rn RENAME x TO b;
INSERT INTO rn VALUES (2,22,11);
PREPARE TRANSACTION '{schema}1';
-- step
SELECT 1;
-- step
SELECT 1;
-- step
COMMIT PREPARED '{schema}1';
-- step
INSERT INTO t VALUES (4,'r',7);
INSERT INTO born VALUES (2);
INSERT INTO tr VALUES (10);
INSERT INTO rn VALUES (3,1,2);
-- step
BEGIN;
ALTER TABLE t ALTER v TYPE varchar USING upper(v);
INSERT INTO t VALUES (5,'xx',1);
ALTER TABLE rn DROP a;
INSERT INTO rn VALUES (4,4);
PREPARE TRANSACTION '{schema}2';
-- step
SELECT 1;
-- step
ROLLBACK PREPARED '{schema}2';
-- step
INSERT INTO t VALUES (6,'low',8);
INSERT INTO rn VALUES (5,5,5);
-- step
BEGIN;
ALTER TABLE t ALTER v TYPE varchar USING upper(v);
INSERT INTO t VALUES (7,'yy',1);
PREPARE TRANSACTION '{schema}3';
-- step
SELECT 1;
-- step
COMMIT PREPARED '{schema}3';
-- step
INSERT INTO t VALUES (8,'low',8);

-- history: prepared transactions attach and detach
CREATE TABLE r (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 (id int NOT NULL, v text);
INSERT INTO r VALUES (1,'a');
INSERT INTO r2 VALUES (11,'x');
-- step
BEGIN;
ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20);
INSERT INTO r VALUES (12,'y');
PREPARE TRANSACTION '{schema}1';
-- step
SELECT 1;
-- step
COMMIT PREPARED '{schema}1';
-- step
INSERT INTO r VALUES (13,'z');
UPDATE r SET v='q' WHERE id=11;
-- step
BEGIN;
UPDATE r SET id = 2 WHERE id = 12;
ALTER TABLE r DETACH PARTITION r2;
PREPARE TRANSACTION '{schema}2';
-- step
SELECT 1;
-- step
COMMIT PREPARED '{schema}2';
-- step
INSERT INTO r VALUES (3,'z');
INSERT INTO r2 VALUES (14,'k');
