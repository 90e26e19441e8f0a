"""Rows about people: accounts, chats and studies."""
