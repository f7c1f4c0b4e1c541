#!/usr/bin/env python3
"""Writes src/text/unicode/tables.inc: the character classes as the Rust tokenizers library has them.

The values are asked from the library itself (pip install tokenizers), code point by code point, because its parts follow
different Unicode versions: its regular expressions Unicode 16, its Punctuation a much older one, Rust's own classes a newer one.
Python's unicodedata must be at Unicode 14 (Python 3.11), the version of PCRE2 10.42: what is assigned since is `recent`.

Usage: unicode_tables.py > src/text/unicode/tables.inc
"""
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = "Cn Cc Cf Co Cs Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def chunks(size):
    for i in range(0, len(ALL), size):
        yield ALL[i : i + size]


def matched(pattern):
    """Code points that the library's regular expressions match."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    rest = set()
    for chunk in chunks(256):
        for piece, _ in split.pre_tokenize_str("".join(map(chr, chunk))):
            rest.update(map(ord, piece))
    return set(ALL) - rest


def isolated(pre_tokenizer):
    """Code points that a pre-tokenizer cuts out of a row of letters."""
    found = set()
    for chunk in chunks(64):
        for piece, _ in pre_tokenizer.pre_tokenize_str("".join("a" + chr(c) for c in chunk) + "a"):
            if len(piece) == 1 and piece != "a":
                found.add(ord(piece))
    return found


def word():
    """Code points that are `\\w` for Rust's regex crate: the pre-tokenizer Whitespace joins them to a letter."""
    found = set()
    for chunk in chunks(64):
        pieces = pre_tokenizers.Whitespace().pre_tokenize_str(" ".join("a" + chr(c) for c in chunk))
        for piece, _ in pieces:
            if len(piece) == 2 and piece[0] == "a":
                found.add(ord(piece[1]))
    return found | {ord("a")}


def stripped():
    strip = normalizers.StripAccents()
    return {c for c in ALL if strip.normalize_str(chr(c)) == ""}


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def emit(name, items, count):
    text = ", ".join(items)
    lines, line = [], "   "
    for item in text.split(", "):
        if len(line) + len(item) + 2 > 126:
            lines.append(line)
            line = "   "
        line += " " + item.replace(":", ", ") + ","
    lines.append(line)
    print(f"constexpr {name}[{count}] = {{\n" + "\n".join(lines) + "\n};\n")


def emit_ranges(name, points):
    r = ranges(points)
    emit(f"CodePointRange k{name}", [f"{{{a:#x}:{b:#x}}}" for a, b in r], len(r))


def main():
    category = [0] * 0x110000
    for index, name in enumerate(CATEGORIES):
        if name not in ("Cn", "Cs"):
            for c in matched(r"\p{%s}" % name):
                category[c] = index
    for c in range(0xD800, 0xE000):
        category[c] = CATEGORIES.index("Cs")
    starts = [c for c in range(0x110000) if c == 0 or category[c] != category[c - 1]]
    recent = {c for c in ALL if category[c] != 0 and unicodedata.category(chr(c)) == "Cn"}
    lower = normalizers.Lowercase()
    lowercase = [(c, lower.normalize_str(chr(c))) for c in ALL]
    lowercase = [(c, t) for c, t in lowercase if len(t) == 1 and t != chr(c)]

    print("// Made by scripts/dev/unicode_tables.py; do not edit.")
    emit("std::uint32_t kCategoryStarts", [f"{c << 8 | category[c]:#x}" for c in starts], len(starts))
    sets = {
        "Alphabetic": matched(r"\p{Alphabetic}"),
        "Han": matched(r"\p{Han}"),
        "Recent": recent,
        "Word": word(),
        "Numeric": isolated(pre_tokenizers.Digits(individual_digits=True)),
        "Punctuation": isolated(pre_tokenizers.Punctuation()),
        "Accents": stripped(),
    }
    for name, points in sets.items():
        emit_ranges(name, points)
    emit("CodePointRange kLowercase", [f"{{{c:#x}:{ord(t):#x}}}" for c, t in lowercase], len(lowercase))


main()
