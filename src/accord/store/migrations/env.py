"""Alembic's entry point: run the numbered migrations on the connection that the store opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
