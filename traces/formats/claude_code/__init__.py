"""Claude Code: `transcript` reads its session files in columns, `stream_json` what `claude -p` prints.

In: JSON Lines. Out: sessions, requests with prompts at the provider's lengths, and what became of the other lines.
The way: lines -> store (tables) -> chains (what each call continues) -> transcript_calls -> counted prompts.
"""
