"""A shop at work: makes its tables, or goes on with orders, moves and cancellations at random."""

import os
import random
import sys

import psycopg

TABLES = """
CREATE TABLE IF NOT EXISTS customers (id BIGINT PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE IF NOT EXISTS orders (
    id BIGINT PRIMARY KEY, customer BIGINT, total NUMERIC(10, 2), placed TIMESTAMPTZ DEFAULT now()
);
"""
CITIES = ["Oslo", "Bergen", "Porto", "Lyon"]


def work(connection: psycopg.Connection, dice: random.Random) -> None:
    """Do some dozen transactions."""
    for _ in range(60):
        with connection.transaction():
            customer, order = dice.randrange(50), dice.randrange(200)
            what = dice.random()
            if what < 0.3:
                connection.execute(
                    "INSERT INTO customers VALUES (%s, %s, %s) "
                    "ON CONFLICT (id) DO UPDATE SET city = EXCLUDED.city",
                    (customer, f"customer {customer}", dice.choice(CITIES)),
                )
            elif what < 0.8:
                connection.execute(
                    "INSERT INTO orders (id, customer, total) VALUES (%s, %s, %s) "
                    "ON CONFLICT (id) DO UPDATE SET total = EXCLUDED.total",
                    (order, customer, dice.randrange(100, 100_000) / 100),
                )
            elif what < 0.9:  # an order that goes to somebody else
                connection.execute(
                    "UPDATE orders SET customer = %s WHERE id = %s", (customer, order)
                )
            else:
                connection.execute("DELETE FROM orders WHERE id = %s", (order,))
            if dice.random() < 0.1:
                raise psycopg.Rollback


if __name__ == "__main__":
    with psycopg.connect(os.environ["SHOP_URL"], autocommit=True) as shop:
        shop.execute(TABLES)
        work(shop, random.Random(int(sys.argv[1])))
