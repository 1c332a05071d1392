"""Names of what can be filtered and set on the left, in words."""

FILTERS = {
    "trajectory_type": "Trajectory type",
    "role": "Role",
    "model": "Model",
    "agent": "Agent",
    "source": "Source",
}
"""Axes that can be filtered by, in the order they are drawn; an axis with one value is not drawn."""

ARRIVALS = {
    "recorded": "As recorded",
    "staggered:600": "A session every 10 min",
    "poisson:60": "60 sessions an hour, at random",
    "closed:8": "8 sessions at a time",
}
WINDOWS = {"all": "All requests", "last:0.5": "Last half", "last:0.25": "Last quarter", "last:0.1": "Last tenth"}

ARRIVALS_HELP = (
    "When sessions start; times inside a session stay as recorded. Own values: `staggered:SECONDS`, "
    "`poisson:PER_HOUR`, `poisson:PER_HOUR:SEED`, `closed:SESSIONS_AT_A_TIME`."
)
BLOCK_HELP = (
    "Tokens of a KV block. Only full blocks of a prompt's start can hit. Must be a multiple of the trace's own blocks; "
    "The defaults are 16 in vLLM and 1 in SGLang."
)
WINDOW_HELP = "Which requests count, by arrival. Earlier requests still warm the cache."
FIRST_SQL = (
    "SELECT model, count(*) AS requests, sum(input_tokens) AS input_tokens, sum(hit_tokens) AS hit_tokens\n"
    "FROM selected GROUP BY model ORDER BY requests DESC"
)
"""What the page SQL asks first."""
