"""Reading a config.json: keys under their several names, per-layer lists, errors that name what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any


class ConfigError(ValueError):
    """A config.json that lacks what the arithmetic needs, or contradicts itself."""


class Keys:
    """The keys of one config, looked up under their several names; errors say which one is missing."""

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self.config, self.name = config, name

    def get(self, *names: str, default: int | None = None) -> int:
        """The whole number under the first of `names` that is there, else the default; ConfigError without one."""
        for key in names:
            value = self.config.get(key)
            if isinstance(value, (list, tuple)):
                value = value[0] if value else None
            if value is not None:
                if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 or int(value) != value:
                    raise ConfigError(f"{self.name}: {key} must be a whole number of at least 0, found {value!r}")
                return int(value)
        if default is None:
            raise ConfigError(
                f"{self.name}: needs {' or '.join(names)}, which is missing; give the model's full config.json"
            )
        return default

    def per_layer(self, name: str, layers: int) -> list[Any] | None:
        """The list under `name`, one entry per layer, or None if it is not there.

        A catalogue row may give [value, layers] pairs under `name`_counts instead. Raises ConfigError if it is too
        short.
        """
        counts = self.config.get(name + "_counts")
        if counts is not None:
            return [value for value, n in counts for _ in range(n)]
        values = self.config.get(name)
        if values is None:
            return None
        if not isinstance(values, list) or len(values) < layers:
            raise ConfigError(f"{self.name}: {name} must list all {layers} layers")
        return list(values[:layers])

    def hybrid_layers(self) -> Counter[str] | None:
        """Layers of a Mamba hybrid by kind: mamba, attention, mlp, moe; None for other models.

        Nemotron-H writes them as letters (M, *, -, E) or as words.
        """
        letters = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
        pattern, words = self.config.get("hybrid_override_pattern"), self.config.get("layers_block_type")
        if not pattern and not words:
            return None
        kinds = Counter(letters.get(c, c) for c in pattern) if pattern else Counter(words)
        if unknown := sorted(set(kinds) - set(letters.values())):
            raise ConfigError(f"{self.name}: unknown kinds of layers {', '.join(map(str, unknown))}")
        return kinds
