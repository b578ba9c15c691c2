#!/usr/bin/env python3
"""Snowflake keys with SQLAlchemy. PGHOST and the like name the server."""
from sqlalchemy import (BigInteger, Column, ForeignKey, MetaData, Text,
                        create_engine, insert, select, text)
from sqlalchemy.orm import Session, declarative_base, relationship
from sqlalchemy.schema import CreateTable

Base = declarative_base()


def snowflake_key():
    """Return a key column that the database fills in. SQLAlchemy reads the keys by
    RETURNING. Without server_default, it would make a bigserial column.
    snowflake_generate() is another name of snowflake_nextval(): a default such as
    snowflake_nextval('javascript') is reflected as that of a sequence."""
    return Column(BigInteger, primary_key=True,
                  server_default=text("snowflake_generate()"))


class Order(Base):
    __tablename__ = "orders"
    id = snowflake_key()
    item = Column(Text, nullable=False)
    lines = relationship("OrderLine", back_populates="order")


class OrderLine(Base):
    __tablename__ = "order_lines"
    id = snowflake_key()
    order_id = Column(ForeignKey("orders.id"), nullable=False)
    note = Column(Text, nullable=False)
    order = relationship("Order", back_populates="lines")


engine = create_engine("postgresql+psycopg2://", future=True)
Base.metadata.create_all(engine)

with Session(engine) as session:
    # one row, and rows that refer to it: flush() sets their keys
    order = Order(item="book", lines=[OrderLine(note="wrap it"),
                                      OrderLine(note="quickly")])
    session.add(order)
    session.flush()
    print("inserted", order.id)
    for line in order.lines:
        print("line", line.id, "of", line.order_id)

    # many objects: few statements, which return the keys
    orders = [Order(item=f"item {n}") for n in range(500)]
    session.add_all(orders)
    session.flush()
    print("bulk", *(order.id for order in orders))

    # many rows without objects
    rows = session.execute(insert(Order).values(
        [{"item": f"item {n}"} for n in range(500, 1000)]).returning(Order.id))
    print("bulk", *rows.scalars())
    session.commit()

# a table that another program has made, with keys for browsers: reflected, as Alembic
# does, it has the same default
with engine.begin() as connection:
    connection.execute(text("""CREATE TABLE notes (id bigint PRIMARY KEY
        DEFAULT snowflake_generate('javascript'))"""))
    reflected = MetaData()
    reflected.reflect(connection)
    for table in reflected.sorted_tables:
        print("reflected", *str(CreateTable(table).compile(connection)).split())
    connection.execute(text("DROP TABLE notes"))

with Session(engine) as session:
    # page by page: each page begins after the last key of the page before
    last = 0
    while page := session.scalars(select(Order).where(Order.id > last)
                                  .order_by(Order.id).limit(300)).all():
        print("page", *(order.id for order in page))
        last = page[-1].id
