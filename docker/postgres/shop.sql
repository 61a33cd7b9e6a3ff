-- The sample: a small shop, its publication, and a role that may replicate and read it, no more.
-- Run once, by the image, on an empty volume.
CREATE TYPE order_status AS ENUM ('placed', 'paid', 'shipped');

CREATE TABLE customers (
  id int PRIMARY KEY,
  name text NOT NULL,
  address jsonb NOT NULL,
  points int NOT NULL DEFAULT 0,
  notes text NOT NULL          -- large enough to be TOASTed: updates of points do not carry it
);

CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer_id int NOT NULL REFERENCES customers,
  status order_status NOT NULL DEFAULT 'placed',
  total numeric(10,2) NOT NULL,
  placed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE order_lines (
  order_id bigint NOT NULL REFERENCES orders ON DELETE CASCADE,
  line smallint NOT NULL,
  product text NOT NULL,
  quantity int NOT NULL,
  price numeric(10,2) NOT NULL,
  PRIMARY KEY (order_id, line)
);

ALTER TABLE customers ALTER COLUMN notes SET STORAGE EXTERNAL;
INSERT INTO customers
SELECT i, 'customer ' || i, jsonb_build_object('street', i || ' Main Street', 'city', 'Springfield'), 0,
       (SELECT string_agg(md5((i * n)::text), ' ') FROM generate_series(1, 75) n)
FROM generate_series(1, 10) i;

CREATE PUBLICATION walbridge FOR TABLE customers, orders, order_lines;

\set password `cat /run/secrets/walbridge_password`
CREATE ROLE walbridge LOGIN REPLICATION PASSWORD :'password';
GRANT CONNECT ON DATABASE shop TO walbridge;
GRANT USAGE ON SCHEMA public TO walbridge;
GRANT SELECT ON TABLE customers, orders, order_lines TO walbridge;
