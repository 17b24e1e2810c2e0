"""The report's colours can be told apart, on light paper and on dark."""

from specgate.bench import palette


def test_colours_can_be_told_from_the_paper_and_from_each_other():
    many = palette.styles(["plain", "spec", "native", "gate", "k1", "k2", "k3", "k4"])
    assert len({(style.colour, style.marker) for style in many.values()}) == len(many)
    assert palette.styles(["plain", "k9"])["plain"] == many["plain"]
    for style in many.values():
        assert contrast(style.colour.light, palette.PAPER.light) >= 3.0
        assert contrast(style.colour.dark, palette.PAPER.dark) >= 3.0
    for text in (palette.INK, palette.MUTED):
        assert contrast(text.light, palette.PAPER.light) >= 4.5
        assert contrast(text.dark, palette.PAPER.dark) >= 4.5


def contrast(one, other):
    """As WCAG has it."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
