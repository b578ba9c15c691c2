#!/usr/bin/env python3
"""Snowflake keys with Django from 5.0 on, which knows the database's defaults.
PGHOST and the like name the server. For Django before 5.0 see with_django.py."""
import os

import django
from django.conf import settings
from django.db import connection, models, transaction
from django.db.models import Func

settings.configure(
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"],
        "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"]}},
    USE_TZ=True)
django.setup()


class SnowflakeModel(models.Model):
    id = models.BigIntegerField(primary_key=True, editable=False,
                                db_default=Func(function="snowflake_nextval"))

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


# In a project, migrations do this.
with connection.schema_editor() as editor:
    for model in Order, OrderLine:
        editor.create_model(model)

# one row, and rows that refer to it
with transaction.atomic():
    order = Order.objects.create(item="book")
    order.lines.create(note="wrap it")
    order.lines.create(note="quickly")
print("inserted", order.id)
for line in order.lines.order_by("id"):
    print("line", line.id, "of", line.order_id)

# many rows: bulk_create() does not read the keys that the database made, so take the
# keys first. Take them in the transaction that inserts, or snowflake_horizon() does
# not cover the rows.
items = [f"item {n}" for n in range(1000)]
with transaction.atomic():
    with connection.cursor() as cursor:
        cursor.execute("SELECT snowflake_nextval_batch(%s)", [len(items)])
        keys = [key for (key,) in cursor]
    orders = Order.objects.bulk_create(
        Order(id=key, item=item) for key, item in zip(keys, items))
print("bulk", *(order.id for order in orders))

# page by page: each page begins after the last key of the page before
last = 0
while page := list(Order.objects.filter(id__gt=last).order_by("id")[:300]):
    print("page", *(order.id for order in page))
    last = page[-1].id
