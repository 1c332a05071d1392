FROM tiers(axis := '{axis}', capacities := {capacities})
