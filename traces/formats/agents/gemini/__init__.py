"""Gemini CLI and Qwen Code, whose chats hold Gemini's content and usage.

In: a chat's JSON or JSON Lines. Out: its session with sub-agents and branches, and its requests.
"""
