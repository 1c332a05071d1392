"""How numbers are written: one formatter for every page, its Vega twin for charts. Unknown is an en dash, never 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from app.widgets.labels import label

UNKNOWN = "–"
SPACE = "\u00a0"  # keeps a number and its unit on one line

Number = float | int | None

_METRIC = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


_TIMES = (
    (0.000_95, 1e-6, 0, "µs"), (0.9995, 1e-3, 0, "ms"), (9.95, 1.0, 1, "s"), (119.5, 1.0, 0, "s"),
    (7170.0, 60.0, 0, "min"), (172_800.0, 3600.0, 1, "h"),
)  # fmt: skip
"""Durations below the first number are written in units of the second, with so many decimals."""


def known(value: Number) -> bool:
    """Whether there is a number to show."""
    return value is not None and math.isfinite(value)


def fixed(value: float, digits: int = 0) -> str:
    """A number with `digits` decimals, a true minus sign, thousands in groups; what rounds to zero has no sign."""
    text = f"{abs(value):,.{digits}f}".replace(",", "\u202f")
    return f"−{text}" if value < 0 and text.strip("0.") else text


def tokens(value: Number) -> str:
    """Three figures and a metric prefix: 950, 1.24 M, 50.4 M."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for size, unit in _METRIC:
        if abs(value) >= size * 0.9995:
            return f"{_three(value / size)}{SPACE}{unit}"
    return _three(value) if value % 1 else fixed(value)


def count(value: Number) -> str:
    """All digits, in groups: 48 210."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return fixed(value)


def rate(value: Number, digits: int = 1) -> str:
    """A fraction as a percentage: 93.4 %. What is not quite 0 or 1 never rounds to it."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    text = f"{100 * value:.{digits}f}"
    if (float(text) == 100 and value < 1) or (float(text) == 0 and value > 0):
        smallest = 10.0**-digits
        return f"> {100 - smallest:.{digits}f}{SPACE}%" if value > 0.5 else f"< {smallest:.{digits}f}{SPACE}%"
    return f"{fixed(100 * value, digits)}{SPACE}%"


def points(value: Number) -> str:
    """A difference of two rates in percentage points, with its sign: +1.2 points."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    text = fixed(100 * value, 1)
    return f"{'+' if value > 0 and text != '0.0' else ''}{text}{SPACE}points"


def ratio(value: Number) -> str:
    """Input to output: 231 : 1, 3.4 : 1."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{fixed(value, 0 if value >= 9.95 else 1)}{SPACE}:{SPACE}1"


def factor(value: Number) -> str:
    """A multiple: 14.8 ×."""
    return f"{_three(value)}{SPACE}×" if value is not None and math.isfinite(value) else UNKNOWN


def plain(value: Number, digits: int = 1) -> str:
    """A number with `digits` decimals, or the dash."""
    return fixed(value, digits) if value is not None and math.isfinite(value) else UNKNOWN


def seconds(value: Number) -> str:
    """A duration by its size: 420 ms, 3.1 s, 12 min, 5.0 h, 3.2 d."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return f"0{SPACE}s"
    divisor, digits, unit = next((row[1:] for row in _TIMES if abs(value) < row[0]), (86_400.0, 1, "d"))
    return f"{fixed(value / divisor, digits)}{SPACE}{unit}"


def usd(value: Number) -> str:
    """US dollars: $48 210, $412.50, $30.33, $0.0347."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    sign, amount = "−" if value < 0 else "", abs(value)
    if amount >= 999.5:
        return f"{sign}${count(amount)}"
    if amount >= 0.995 or amount == 0:
        return f"{sign}${amount:.2f}"
    return f"{sign}${amount:.{2 - math.floor(math.log10(amount))}f}"  # three figures, never a power of ten


def price(value: Number) -> str:
    """US dollars for a million tokens, as the price list writes them: $0.3, $12.5."""
    return f"${value:g}" if value is not None and math.isfinite(value) else UNKNOWN


def size(value: Number) -> str:
    """Bytes in binary units: 68.6 GiB."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for unit_bytes, unit in _BINARY:
        if abs(value) >= unit_bytes:
            return f"{_three(value / unit_bytes)}{SPACE}{unit}"
    return f"{fixed(value)}{SPACE}B"


def nines(value: Number) -> str:
    """−log10(1 − rate): 1.17 nines."""
    return f"{fixed(value, 2)}{SPACE}nines" if value is not None and math.isfinite(value) else UNKNOWN


def _three(value: float) -> str:
    return fixed(value, 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2)


WRITTEN: dict[str, Callable[[Any], str]] = {
    "text": str, "count": count, "tokens": tokens, "rate": rate, "points": points, "ratio": ratio, "factor": factor,
    "number": plain, "seconds": seconds, "bytes": size,
}  # fmt: skip
"""Unit of a label -> how a page writes it."""


def figure(name: str, value: Any) -> str:
    """A figure with all its digits, for tables of the command line and the HTML report; a dash where it is unknown."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return UNKNOWN
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if label(name).unit == "rate":
        return f"{100 * value:.2f} %"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) >= 1000):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 10 else f"{value:.4g}"


# Vega writes the axes; these say the same as the functions above.
VEGA_RATE = "format(datum.value * 100, '.0f') + ' %'"
VEGA_TOKENS = (
    "abs(datum.value) < 1 ? format(datum.value, '.3~r') : replace(format(datum.value, '.3~s'), /([kMGT])$/, ' $1')"
)
VEGA_SECONDS = "datum.value == 0 ? '0 s' : " + "".join(
    [
        *(f"abs(datum.value) < {below!r} ? format(datum.value / {by!r}, '.{digits}~f') + ' {unit}' : "
          for below, by, digits, unit in _TIMES),
        "format(datum.value / 86400, '.1~f') + ' d'",
    ]
)  # fmt: skip


def vega_capacity(bytes_per_token: float | None) -> str:
    """Axis labels of a capacity in tokens; with a model's bytes per token GiB first and tokens below."""
    if bytes_per_token is None:
        return VEGA_TOKENS
    gib = f"datum.value * {bytes_per_token / (1 << 30)!r}"
    text = (
        f"{gib} >= 1023 ? format({gib} / 1024, '.3~r') + ' TiB' : {gib} >= 0.99 ? format({gib}, '.3~r') + ' GiB'"
        f" : format({gib} * 1024, '.3~r') + ' MiB'"
    )
    return f"[{text}, {VEGA_TOKENS}]"


def short(value: int) -> str:
    """A size as it is typed on the command line and stands in a link: 64, 1.05M, 262k."""
    return tokens(value).replace(SPACE, "")
