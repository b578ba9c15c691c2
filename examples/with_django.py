#!/usr/bin/env python3
"""Snowflake keys with Django before 5.0, such as Debian 12's 3.2. PGHOST and the like
name the server.

Django before 5.0 names all columns in an INSERT, so the database's default is not used.
Therefore the key is fetched first. For Django from 5.0 on see with_django5.py.
"""
import os

import django
from django.conf import settings
from django.db import connection, models, transaction

settings.configure(
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"],
        "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"]}},
    USE_TZ=True)
django.setup()


def snowflakes(count):
    """Return this many keys, in one round trip. Take them in the transaction that
    saves their rows, or snowflake_horizon() does not cover the rows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT snowflake_nextval_batch(%s)", [count])
        return [key for (key,) in cursor]


def snowflake():
    return snowflakes(1)[0]


class SnowflakeModel(models.Model):
    id = models.BigIntegerField(primary_key=True, default=snowflake,
                                editable=False)

    class Meta:
        abstract = True


class Order(SnowflakeModel):
    item = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


class OrderLine(SnowflakeModel):
    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    note = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "order_lines"


# In a project, migrations do this. The default in the database is for clients other
# than Django: set it by migrations.RunSQL after CreateModel.
with connection.schema_editor() as editor:
    for model in Order, OrderLine:
        editor.create_model(model)
        editor.execute(f"ALTER TABLE {model._meta.db_table} "
                       "ALTER id SET DEFAULT snowflake_nextval()")

# one row, and rows that refer to it
with transaction.atomic():
    order = Order.objects.create(item="book")
    order.lines.create(note="wrap it")
    order.lines.create(note="quickly")
print("inserted", order.id)
for line in order.lines.order_by("id"):
    print("line", line.id, "of", line.order_id)

# many rows: take all keys at once, or each object fetches its own
items = [f"item {n}" for n in range(1000)]
with transaction.atomic():
    orders = Order.objects.bulk_create(
        Order(id=key, item=item)
        for key, item in zip(snowflakes(len(items)), items))
print("bulk", *(order.id for order in orders))

# page by page: each page begins after the last key of the page before
last = 0
while page := list(Order.objects.filter(id__gt=last).order_by("id")[:300]):
    print("page", *(order.id for order in page))
    last = page[-1].id
