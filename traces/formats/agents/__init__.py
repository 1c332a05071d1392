"""Coding agents: one agent a file, or a folder where several files make one format.

In: what an agent keeps of its sessions (JSON, JSON Lines, SQLite, Markdown). Out: sessions, requests with their
prompts, and what became of every other record (`traces.transcripts`).
"""
