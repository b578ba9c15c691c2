#!/usr/bin/env python3
"""Snowflake keys with Django, tested with 3.2 and 5.2. PGHOST and the like name the
server. The models keep Django's own key, and the database makes it."""
import os

import django
from django.conf import settings
from django.db import connection, models, transaction

settings.configure(
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"],
        "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"]}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True)
django.setup()


class Order(models.Model):
    item = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


class OrderLine(models.Model):
    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    note = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "order_lines"


# In a project, a migration does this by migrations.RunSQL(CONVERT, REVERT) after
# CreateModel, for each table, also for those of a ManyToManyField.
CONVERT = ("SELECT count(*) FROM snowflake_convert('{}', "
           "function => 'snowflake_generate', dry_run => false)")
REVERT = ("SELECT count(*) FROM snowflake_revert('{}', "
          "identity => 'by default', dry_run => false)")
with connection.schema_editor() as editor:
    for model in Order, OrderLine:
        editor.create_model(model)
        editor.execute(CONVERT.format(model._meta.db_table))

# one row, and rows that refer to it
with transaction.atomic():
    order = Order.objects.create(item="book")
    order.lines.create(note="wrap it")
    order.lines.create(note="quickly")
print("inserted", order.id)
for line in order.lines.order_by("id"):
    print("line", line.id, "of", line.order_id)

# many rows
orders = Order.objects.bulk_create(
    Order(item=f"item {n}") for n in range(1000))
print("bulk", *(order.id for order in orders))

# page by page: each page begins after the last key of the page before
last = 0
while page := list(Order.objects.filter(id__gt=last).order_by("id")[:300]):
    print("page", *(order.id for order in page))
    last = page[-1].id
