-- One order, for pgbench: placed; an older one goes on its way; the oldest goes. The shop stays as large as it is.
\set customer random(1, 10)
\set lines random(1, 4)
BEGIN;
INSERT INTO orders (customer_id, total) VALUES (:customer, :lines * 19.90) RETURNING id AS order_id \gset
INSERT INTO order_lines
SELECT :order_id, line, 'product ' || (:order_id + line) % 20, line, 19.90 FROM generate_series(1, :lines) AS line;
UPDATE orders SET status = 'paid' WHERE id = :order_id - 5;
UPDATE orders SET status = 'shipped' WHERE id = :order_id - 20;
UPDATE customers SET points = points + :lines WHERE id = :customer;
DELETE FROM orders WHERE id <= :order_id - 300;
COMMIT;
