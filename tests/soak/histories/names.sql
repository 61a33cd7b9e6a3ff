-- history: names of odd signs
CREATE TABLE "a.b""c d,;{}()" (id int primary key, "Q" int, q int, "with space" text, "é😀" int, "x=y" int, "_walbridge" int, "%s" int);
INSERT INTO "a.b""c d,;{}()" VALUES (1,2,3,'x',4,5,6,7);
CREATE TABLE "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" (id int primary key, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" int);
INSERT INTO "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" VALUES (1,1);
-- step
ALTER TABLE "a.b""c d,;{}()" RENAME "Q" TO z;
ALTER TABLE "a.b""c d,;{}()" RENAME q TO "Q";
ALTER TABLE "a.b""c d,;{}()" RENAME z TO q;
INSERT INTO "a.b""c d,;{}()" VALUES (2,2,3,'x',4,5,6,7);
-- step
ALTER TABLE "a.b""c d,;{}()" RENAME TO "A.B";
INSERT INTO "A.B" VALUES (3,2,3,'x',4,5,6,7);
CREATE TABLE "a.b" (id int primary key);
INSERT INTO "a.b" VALUES (1);

-- history: names with lines, tabs and signs of other languages
CREATE TABLE "line
break" (id int primary key, "tab	col" text, "back\slash" int, "new
line" int, "'" int, "." int);
INSERT INTO "line
break" VALUES (1,'x',2,3,4,5);
CREATE TABLE "😀é" ("ключ" int primary key, "値" text);
INSERT INTO "😀é" VALUES (1,'日本');
CREATE TABLE "1" ("1" int primary key, "2" int);
INSERT INTO "1" VALUES (1,2);
CREATE TABLE "-" ("-" int primary key, "--" int, "_" int, "__" int, " " int, "a.b" int, "a_b" int, "a-b" int, "a_x2e_b" int, "a_2e_b" int);
INSERT INTO "-" VALUES (1,2,3,4,5,6,7,8,9,10);
-- step
INSERT INTO "line
break" VALUES (2,'x',2,3,4,5);
INSERT INTO "😀é" VALUES (2,'本');
INSERT INTO "1" VALUES (2,2);
INSERT INTO "-" VALUES (2,2,3,4,5,6,7,8,9,10);
-- step
ALTER TABLE "line
break" RENAME "new
line" TO "new	line";
UPDATE "line
break" SET "new	line" = 99;
ALTER TABLE "😀é" RENAME TO "...";
INSERT INTO "..." VALUES (3,'z');

-- history: columns called as our own fields
CREATE TABLE t (op int primary key, before text, after text, source text, ts_ms int, exceptional numeric(5,2), unchanged text, transaction text, "schema" int, payload int, "null" int, "record" int, "_2" int, exceptional_ int, lsn int);
INSERT INTO t VALUES (1,'b','a','s',1,'NaN','u','t',1,2,3,4,5,6,7);
CREATE TABLE "walbridge" (id int primary key);
INSERT INTO "walbridge" VALUES (1);
CREATE TABLE cuts (id int primary key);
CREATE TABLE metadata (id int primary key);
INSERT INTO metadata VALUES (3);
-- step
INSERT INTO t VALUES (2,'b','a','s',1,1.5,'u','t',1,2,3,4,5,6,7);
UPDATE t SET after='q';
INSERT INTO cuts VALUES (1);
