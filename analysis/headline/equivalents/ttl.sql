FROM ttl_curve(axis := '{axis}', ttls := {ttls})
