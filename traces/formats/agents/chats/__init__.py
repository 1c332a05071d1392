"""Chats."""
