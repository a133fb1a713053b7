"""Docstrings for the reference: formulas stay formulas, whatever Markdown makes of `_`, `*`, `{}` and `[]`.

A docstring is plain text, to be read by `help`. Before mkdocstrings renders it, what Markdown would take for emphasis,
attributes, links or tags is escaped, and subscripts and superscripts are set: q_{k+1}, v^a. Code in backquotes and examples
stay as they are.
"""

from __future__ import annotations

import html
import re

CODE = re.compile(r"(`[^`]+`)")
HEAD = re.compile(r"(\s*\*{0,2}\w+:)(\s.*)?")  # of an item of a section: its name has to stay as it is written
SECTION = re.compile(r"[A-Z]\w+:")
SPECIAL = re.compile(r"[\\`*_{}\[\]#]")
SIZE = {"_": "sub", "^": "sup"}
# After a letter, a bracket or a mark above a letter: {…}; above also (…) or a word; below one or two letters or digits, as
# in L_vv, since longer words after an underscore belong to names.
RAISED = re.compile(
    r"(?<=[^\s_^,;:+=/-])([_^])"
    r"(?:\{([^{}]*)\}|(?<=\^)(\([^()]*\)|\w+)|(?<=_)([A-Za-z0-9Α-Ωα-ω]{1,2})(?![A-Za-z0-9_]))"
)


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\g<0>", text).replace("<", "&lt;").replace(">", "&gt;")


def formulas(text: str) -> str:
    """The same with subscripts and superscripts."""
    out, at = [], 0
    for found in RAISED.finditer(text):
        tag = SIZE[found[1]]
        out += [escaped(text[at : found.start()]), f"<{tag}>", escaped(found[2] or found[3] or found[4] or ""), f"</{tag}>"]
        at = found.end()
    return "".join([*out, escaped(text[at:])])


def line_as_markdown(line: str) -> str:
    head, body = (found[1], found[2] or "") if (found := HEAD.fullmatch(line)) else ("", line)
    return head + "".join(part if CODE.fullmatch(part) else formulas(part) for part in CODE.split(body))


def as_markdown(docstring: str) -> str:
    """A whole docstring; `Example:` becomes the section whose code griffe sets as code."""
    lines, inside = [], False
    for line in docstring.splitlines():
        inside = (inside and not SECTION.fullmatch(line)) or line == "Example:"
        if line == "Example:":
            lines.append("Examples:")
        else:
            lines.append(line if inside else line_as_markdown(line))
    return "\n".join(lines)


def shown(docstring: str) -> str:
    """The first paragraph as a browser shows it, without spaces."""
    first = as_markdown(docstring).partition("\n\n")[0].replace("`", "")
    return re.sub(r"\s", "", html.unescape(re.sub(r"</?su[bp]>|\\(?=[\\*_{}\[\]#])", "", first)))
