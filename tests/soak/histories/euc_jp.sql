-- history: names, labels and keys in EUC-JP
CREATE TYPE "気分" AS ENUM ('悲しい','良い');
CREATE TABLE "表" ("番号" int primary key, "名前" text, "気" "気分");
INSERT INTO "表" VALUES (1,'漢字カナ','良い');
CREATE TABLE k (k text primary key);
INSERT INTO k VALUES ('～'),('∥'),('－'),('￠'),('あ'),('ｱ');
-- step
INSERT INTO "表" VALUES (2,'～∥－','悲しい');
UPDATE k SET k = k || '語';
-- step
ALTER TABLE "表" RENAME "名前" TO "氏名";
INSERT INTO "表" VALUES (3,'x','良い');
ALTER TABLE k ADD v int;
ALTER TABLE k ALTER v TYPE text USING 'あ';
