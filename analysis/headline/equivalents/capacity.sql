FROM lru_curve(axis := '{axis}', capacities := {capacities})
