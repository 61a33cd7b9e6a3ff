-- history: a foreign table is a partition for a while
CREATE EXTENSION IF NOT EXISTS file_fdw SCHEMA public;
CREATE SERVER fs_{schema} FOREIGN DATA WRAPPER file_fdw;
CREATE TABLE r (id int, v text) PARTITION BY LIST (id);
ALTER TABLE r REPLICA IDENTITY FULL;
CREATE TABLE r0 PARTITION OF r FOR VALUES IN (0,2,4);
ALTER TABLE r0 REPLICA IDENTITY FULL;
INSERT INTO r VALUES (0,'x'),(2,'y');
-- step
INSERT INTO r VALUES (4,'z');
-- step
CREATE FOREIGN TABLE r1 PARTITION OF r FOR VALUES IN (1,3) SERVER fs_{schema} OPTIONS (program 'echo 1,far', format 'csv');
-- step
INSERT INTO r VALUES (4,'z2');
-- step
UPDATE r0 SET v = 'q';
-- step
ALTER TABLE r DETACH PARTITION r1;
-- step
INSERT INTO r VALUES (2,'z3');

-- history: a table with rows is a partition for a while
CREATE TABLE r (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 (id int NOT NULL, v text);
INSERT INTO r VALUES (1,'a');
INSERT INTO r2 VALUES (11,'x');
-- step
ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20);
INSERT INTO r VALUES (12,'y');
-- step
INSERT INTO r VALUES (13,'z');
UPDATE r SET v='q' WHERE id=11;
-- step
UPDATE r SET id = 2 WHERE id = 12;
ALTER TABLE r DETACH PARTITION r2;
-- step
INSERT INTO r VALUES (3,'z');
INSERT INTO r2 VALUES (14,'k');

-- history: a partition comes and goes beside an update
CREATE TABLE r (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 (id int NOT NULL, v text);
INSERT INTO r VALUES (1,'a');
INSERT INTO r2 VALUES (11,'x');
-- step
ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20);
-- step
UPDATE r SET v='q' WHERE id=11;
-- step
ALTER TABLE r DETACH PARTITION r2;
-- step
INSERT INTO r VALUES (3,'z');

-- history: a row moves out of a partition that goes
CREATE TABLE r (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 (id int NOT NULL, v text);
INSERT INTO r VALUES (1,'a');
INSERT INTO r2 VALUES (11,'x');
-- step
ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20);
-- step
UPDATE r SET id=2 WHERE id=11;
-- step
ALTER TABLE r DETACH PARTITION r2;
-- step
INSERT INTO r VALUES (3,'z');

-- history: a root is truncated while it has one partition more
CREATE TABLE r (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 (id int NOT NULL, v text);
INSERT INTO r VALUES (1,'a');
INSERT INTO r2 VALUES (11,'x');
-- step
ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20);
-- step
TRUNCATE r;
INSERT INTO r VALUES (2,'n');
-- step
ALTER TABLE r DETACH PARTITION r2;
-- step
INSERT INTO r2 VALUES (15,'z');

-- history: a root is the partition of another one for a while, from 13 on
CREATE TABLE r (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE TABLE r2 (id int NOT NULL, v text);
INSERT INTO r VALUES (1,'a');
INSERT INTO r2 VALUES (11,'x');
CREATE TABLE q (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE q1 PARTITION OF q FOR VALUES FROM (20) TO (25);
INSERT INTO q VALUES (21,'q');
-- step
ALTER TABLE r ATTACH PARTITION q FOR VALUES FROM (20) TO (30);
-- step
INSERT INTO r VALUES (22,'n');
UPDATE r SET v='w' WHERE id=21;
-- step
ALTER TABLE r DETACH PARTITION q;
-- step
INSERT INTO q VALUES (23,'z');
INSERT INTO r VALUES (5,'f');

-- history: a leaf two levels below comes and goes, from 13 on
CREATE TABLE r (id int, k int, v text, PRIMARY KEY (id,k)) PARTITION BY RANGE (id);
CREATE TABLE m PARTITION OF r FOR VALUES FROM (0) TO (100) PARTITION BY LIST (k);
CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);
CREATE TABLE l (v text, k int NOT NULL, id int NOT NULL);
INSERT INTO r VALUES (1,1,'a');
INSERT INTO l VALUES ('l',2,7);
-- step
ALTER TABLE m ATTACH PARTITION l FOR VALUES IN (2);
-- step
UPDATE r SET k = 1 WHERE id=7;
INSERT INTO r VALUES (8,2,'x');
-- step
ALTER TABLE m DETACH PARTITION l;
-- step
INSERT INTO r VALUES (9,1,'y');
INSERT INTO l VALUES ('e',9,9);

-- history: a partition under identity FULL comes and goes, from 13 on
CREATE TABLE r (id int, v text) PARTITION BY RANGE (id);
ALTER TABLE r REPLICA IDENTITY FULL;
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
ALTER TABLE r1 REPLICA IDENTITY FULL;
CREATE TABLE r2 (id int NOT NULL, v text);
ALTER TABLE r2 REPLICA IDENTITY FULL;
INSERT INTO r VALUES (1,'a');
INSERT INTO r2 VALUES (11,'x');
-- step
ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20);
-- step
INSERT INTO r VALUES (12,'n');
-- step
ALTER TABLE r DETACH PARTITION r2;
-- step
INSERT INTO r2 VALUES (15,'z');

-- history: a partition has another identity for a while, from 13 on
CREATE TABLE r (id int, u int NOT NULL, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10);
CREATE UNIQUE INDEX r1u ON r1 (u);
INSERT INTO r VALUES (1,1,'a'),(2,2,'b');
-- step
ALTER TABLE r1 REPLICA IDENTITY USING INDEX r1u;
-- step
UPDATE r SET id = 3 WHERE id = 1;
-- step
ALTER TABLE r1 REPLICA IDENTITY DEFAULT;
-- step
UPDATE r SET v='z';
