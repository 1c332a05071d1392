"""Numbers as pages write them: the laws of every formatter, and axis labels as Vega draws them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from app.widgets import formats

SIGNED = (
    formats.tokens, formats.count, formats.rate, formats.points, formats.factor, formats.plain, formats.seconds,
    formats.usd, formats.size, formats.nines, formats.ratio,
)  # fmt: skip
NUMBER = re.compile(r"[<>]? ?[−+]?\$?\d{1,3}(\u202f\d{3})*(\.\d+)?(\u00a0\S+)*(\u00a01)?")


@given(some.floats(-1e15, 1e15, allow_nan=False))
def test_every_formatter_writes_one_shape_of_number(value: float) -> None:
    for write in SIGNED:
        text = write(value)
        assert NUMBER.fullmatch(text), (write.__name__, text)
        assert not re.match(r"−\$?0(\.0*)?(\u00a0|$)", text), (write.__name__, text)


@given(some.floats(1e-6, 1e9))
def test_a_duration_never_rounds_to_nothing_and_minus_is_its_mirror(value: float) -> None:
    text = formats.seconds(value)
    assert float(text.split(formats.SPACE)[0].replace("\u202f", "")) > 0
    assert formats.seconds(-value) == f"−{text}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (formats.seconds(5000), "83\u00a0min"),
        (formats.seconds(10_000), "2.8\u00a0h"),
        (formats.seconds(-20_000), "−5.6\u00a0h"),
        (formats.seconds(0.0003), "300\u00a0µs"),
        (formats.nines(-0.0), "0.00\u00a0nines"),
        (formats.nines(-0.001), "0.00\u00a0nines"),
        (formats.rate(-0.05), "−5.0\u00a0%"),
        (formats.plain(12345.6), "12\u202f345.6"),
        (formats.count(-1234), "−1\u202f234"),
    ],
)
def test_numbers_that_were_once_written_badly(text: str, expected: str) -> None:
    assert text == expected


def labels(expression: str, values: list[float]) -> list[str]:
    """Axis labels as Vega writes them."""
    import altair as alt
    import polars as pl
    import vl_convert

    axis = alt.Axis(values=values, labelExpr=expression, labelOverlap=False)
    domain = alt.Scale(domain=[min(values), max(values)])
    chart = (
        alt.Chart(pl.DataFrame({"x": [float(v) for v in values]}))
        .mark_point()
        .encode(y=alt.Y("x:Q", axis=axis, scale=domain))
    )
    drawn = vl_convert.vegalite_to_svg(chart.properties(height=40 * len(values)).to_dict())
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    return [t for t in texts if t != "x"]


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        (formats.VEGA_SECONDS, [-20_000, 0, 5000, 10_000], {"−5.6 h", "0 s", "83 min", "2.8 h"}),
        (formats.VEGA_SECONDS, [0.0003, 0.02, 1.5, 30], {"300 µs", "20 ms", "1.5 s", "30 s"}),
        (formats.VEGA_TOKENS, [0, 0.5, 1], {"0", "0.5", "1"}),
        (formats.VEGA_TOKENS, [0, 500_000, 1_000_000], {"0", "500 k", "1 M"}),
    ],
)
def test_axes_say_the_same_as_the_text_beside_them(expression: str, values: list[float], expected: set[str]) -> None:
    assert set(labels(expression, values)) == expected


def test_a_chart_is_saved_as_png_and_as_svg_with_its_texts() -> None:
    import altair as alt
    import polars as pl

    from app.widgets.charts import scales

    chart = alt.Chart(pl.DataFrame({"x": ["<b>one & two</b>"], "y": [3]})).mark_bar().encode(x="x:N", y="y:Q")
    assert scales.picture(chart, "png").startswith(b"\x89PNG\r\n")
    drawn = scales.picture(chart, "svg").decode()
    assert drawn.startswith("<svg")
    assert "<b>" not in drawn
