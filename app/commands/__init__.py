"""The command line, one subcommand a file; `app.cli` names them.

In: arguments. Out: data on stdout, progress and refusals on stderr, an exit code. `shell/` holds what every command
shares; the other folders hold commands by subject.
"""
