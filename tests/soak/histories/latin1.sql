-- history: names, labels and keys in Latin-1
CREATE TYPE "stimmung" AS ENUM ('trüb','für''s');
CREATE DOMAIN "domäne" AS text;
CREATE TABLE "täble ß" (id int primary key, "ñame" text, "é" "stimmung", d "domäne", a text[], "e2" "stimmung"[]);
INSERT INTO "täble ß" VALUES (1,'ÿþ','trüb','ä','{ö,NULL}','{trüb}');
CREATE TABLE k (k text primary key, "schlüssel" int);
INSERT INTO k SELECT chr(c), c FROM generate_series(161,255) c;
CREATE TABLE kc ("ü" text, "Ü" char(3), PRIMARY KEY ("Ü","ü"));
INSERT INTO kc SELECT 'ü'||c, chr(c) FROM generate_series(161,255) c;
CREATE TABLE f ("ü" text);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO f VALUES ('ä'),('ä'),(NULL);
-- step
INSERT INTO "täble ß" VALUES (2,'Ä','für''s','ö','{}','{}');
ALTER TABLE "täble ß" ADD "dëfault" text DEFAULT 'ÿ';
ALTER TABLE "täble ß" ADD "enüm" "stimmung" DEFAULT 'trüb';
-- step
INSERT INTO "täble ß"(id) VALUES (3);
UPDATE k SET k = k || 'é' WHERE k < 'Â';
DELETE FROM f WHERE ctid = (SELECT min(ctid) FROM f);
-- step
ALTER TABLE "täble ß" RENAME "ñame" TO "Ñ";
ALTER TABLE "täble ß" RENAME TO "ålpha";
INSERT INTO "ålpha"(id,"Ñ") VALUES (4,'z');
-- step
ALTER TABLE k ALTER "schlüssel" TYPE bigint;
ALTER TABLE kc ADD v text DEFAULT 'ö';
ALTER TABLE kc ALTER v TYPE text USING v||'ä';
-- step
UPDATE kc SET v = 'ß';
DELETE FROM k WHERE k > 'ö';
