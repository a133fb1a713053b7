r"""Formulas become MathML while the pages are built, so that a page needs neither JavaScript nor a network.

pymdownx.arithmatex marks a formula as ``<span class="arithmatex">\(...\)</span>`` or
``<div class="arithmatex">\[...\]</div>``; this hook replaces both by what latex2mathml makes of them. A
formula that latex2mathml does not understand, or that browsers would show wrongly, stops the build and is
named with its page.
"""

from __future__ import annotations

import html
import itertools
import re

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">'
    r"\\(?P<open>[(\[])(?P<tex>.*?)\\[)\]]"
    r"</(?P=tag)>(?P<after>[,.;:)]*)",
    flags=re.DOTALL,
)

# The bars of an absolute value, opening and closing in turn. latex2mathml writes operators without a form: Chromium
# takes them for relations, and drew the two bars of \lvert u\rvert^2 at different heights.
BAR = re.compile(r"\\[lr]vert(?![A-Za-z])|(?<!\\)(?<!left)(?<!right)(?<![bB]ig[lr])\|")
OPENS, CLOSES = "⟮", "⟯"

# What latex2mathml writes, and what it should have written. Browsers set a single letter in <mi> in italics,
# which \mathrm{d} must not be, and they know lengths but no named negative spaces.
REPAIRS = (
    (re.compile(f"<mi>{OPENS}</mi>"), '<mo form="prefix" stretchy="false" lspace="0" rspace="0">|</mo>'),
    (re.compile(f"<mi>{CLOSES}</mi>"), '<mo form="postfix" stretchy="false" lspace="0" rspace="0">|</mo>'),
    (re.compile(r"<mi>(&#x000[4-7][0-9A-F];)</mi>"), r'<mi mathvariant="normal">\1</mi>'),
    (re.compile(r'width="negativethinmathspace"'), 'width="-0.167em"'),
)

# What must not be left in the output, and what to write instead.
REFUSALS = (
    (re.compile(r"\\[A-Za-z]+"), "an unknown command"),
    (re.compile(r"&(?![#\w]+;)"), "an alignment mark outside align*, aligned or a matrix"),
    (re.compile(r'linebreak="newline"'), "a line break outside align*, aligned or a matrix"),
    (
        re.compile(r'mathvariant="(?!normal)[\w-]+"'),
        r"a style browsers ignore: use \mathbf, \mathcal, \mathbb or \mathfrak",
    ),
    (
        re.compile(r"<mtext>\(\d+\)</mtext>"),
        r"a numbered equation: use align* and name the equation in the text",
    ),
)


def to_mathml(tex: str, *, display: bool) -> str:
    """The MathML of one formula; ValueError if it cannot be shown faithfully."""
    source = re.sub(r"\\(begin|end)\{aligned\}", r"\\\1{align*}", tex.strip())
    sides = itertools.cycle((OPENS, CLOSES))
    source = BAR.sub(lambda _: next(sides), source)
    try:
        mathml = convert(source, display="block" if display else "inline")
    except Exception as error:  # latex2mathml raises a class of its own for each mistake, with no common base
        raise ValueError(f"{type(error).__name__} {error}") from error
    for pattern, replacement in REPAIRS:
        mathml = pattern.sub(replacement, mathml)
    for pattern, reason in REFUSALS:
        if found := pattern.search(mathml):
            raise ValueError(f"{reason} ({found.group()})")
    return mathml


def on_page_content(content: str, *, page, **_) -> str:
    """mkdocs calls this with the HTML of every page."""

    def replace(match: re.Match[str]) -> str:
        tex, display = html.unescape(match["tex"]), match["open"] == "["
        try:
            mathml = to_mathml(tex, display=display)
        except ValueError as error:
            raise PluginError(f"{page.file.src_uri}: {error} in the formula {tex.strip()!r}") from error
        if display:
            return f'<div class="formula">{mathml}</div>{match["after"]}'
        # A line may break after a formula, but not before the comma that follows it.
        return f'<span class="formula-end">{mathml}{match["after"]}</span>' if match["after"] else mathml

    return FORMULA.sub(replace, content)
