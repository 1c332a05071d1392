"""What every command shares: its frame (--debug, refusals, exit codes), option types, rules between options, tables.

In: click's arguments, frames and dicts. Out: parsed values, text for a terminal, JSON.
"""
