#!/usr/bin/env python3
"""Writes text/src/tokenizer/unicode_data.inc: what the `tokenizers` package knows of every code point.

The package draws on five libraries of different Unicode versions (its normalization forms are those of
Unicode 9, its regular expressions those of a later one), so a table of any one version would differ from
it somewhere. This asks the package itself. Run it with .deps/venv/bin/python after an update of the package.
"""

import pathlib
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
POINTS = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
ALL = "".join(map(chr, POINTS))


def removed_by(splitter):
    """The code points that a pre-tokenizer takes away."""
    kept = set()
    for _, (first, last) in splitter.pre_tokenize_str(ALL):
        kept.update(POINTS[first:last])
    return [p for p in POINTS if p not in kept]


def matched_by(pattern):
    return removed_by(pre_tokenizers.Split(Regex(pattern), "removed"))


def ranges(points):
    result = []
    for point in points:
        if result and result[-1][1] == point - 1:
            result[-1][1] = point
        else:
            result.append([point, point])
    return result


def classes():
    white = removed_by(pre_tokenizers.WhitespaceSplit())
    assert matched_by(r"\s") == white, "the two kinds of white space differ"
    # Whitespace removes what is neither \w nor \W\S; a word character joins another one.
    word = [p for p in POINTS if len(pre_tokenizers.Whitespace().pre_tokenize_str("a" + chr(p))) == 1
            and p not in set(white)]
    numeric = [p for p in POINTS if len(pre_tokenizers.Digits().pre_tokenize_str("1" + chr(p))) == 1]
    table = {
        "white": white,
        "word": word,
        "numeric": numeric,
        "punctuation": removed_by(pre_tokenizers.Punctuation("removed")),
    }
    # General categories, as the package's regular expressions see them.
    for name in ("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi",
                 "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"):
        table["category_" + name.lower()] = matched_by(rf"\p{{{name}}}")
    for name in ("L", "M", "N", "P", "S", "Z"):
        whole = sorted(sum((v for k, v in table.items() if k.startswith("category_" + name.lower())), []))
        assert whole == matched_by(rf"\p{{{name}}}"), name
    # \w in a regular expression of the file, which is another engine's than the one of Whitespace.
    table["regex_word"] = matched_by(r"\w")
    return table


def mapping(normalizer):
    """Code points that change, with what they become."""
    return {p: normalizer.normalize_str(chr(p)) for p in POINTS if normalizer.normalize_str(chr(p)) != chr(p)}


def combining_classes():
    """Classes never change once they are given; what the package does not know yet has class 0 for it."""
    nfd = normalizers.NFD()
    known = {}
    for p in POINTS:
        number = unicodedata.combining(chr(p))
        if number == 0:
            continue
        pair = chr(0x301) + chr(p) if number < 230 else chr(p) + chr(0x334)  # 230 and 1, in the wrong order
        if nfd.normalize_str(pair) != pair or len(nfd.normalize_str(chr(p))) > 1 or nfd.normalize_str(chr(p)) != chr(p):
            known[p] = number
    return known


def compositions():
    nfc = normalizers.NFC()
    pairs = []
    for p in POINTS:
        parts = unicodedata.decomposition(chr(p)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(x, 16) for x in parts)
            if nfc.normalize_str(chr(first) + chr(second)) == chr(p):
                pairs.append((first, second, p))
    return sorted(pairs)


def hangul(p):
    return 0xAC00 <= p <= 0xD7A3


def rows(values, per_row):
    for i in range(0, len(values), per_row):
        yield "    " + " ".join(values[i : i + per_row])


def emit_ranges(out, name, points):
    out.append(f"constexpr Range {name}[] = {{")
    out += rows([f"{{0x{a:x}, 0x{b:x}}}," for a, b in ranges(points)], 6)
    out.append("};")


def emit_mapping(out, name, table):
    out.append(f"constexpr Mapped {name}[] = {{")
    text, items = [], []
    for point, to in sorted(table.items()):
        items.append(f"{{0x{point:x}, {len(text)}, {len(to)}}},")
        text += [f"0x{ord(c):x}," for c in to]
    out += rows(items, 6)
    out += ["};", f"constexpr char32_t {name}_text[] = {{"]
    out += rows(text, 14)
    out.append("};")


def main():
    out = [
        "// Written by scripts/make_unicode_tables.py: do not edit.",
        f"// What the Python package tokenizers {tokenizers.__version__} knows of every code point.",
    ]
    for name, points in classes().items():
        emit_ranges(out, name, points)
    emit_mapping(out, "lower_case", mapping(normalizers.Lowercase()))
    canonical = {p: t for p, t in mapping(normalizers.NFD()).items() if not hangul(p)}
    compatible = {p: t for p, t in mapping(normalizers.NFKD()).items() if not hangul(p) and canonical.get(p) != t}
    emit_mapping(out, "canonical", canonical)
    emit_mapping(out, "compatible", compatible)
    by_class = {}
    for point, number in combining_classes().items():
        by_class.setdefault(number, []).append(point)
    out.append("constexpr ClassRange combining[] = {")
    items = sorted((a, b, number) for number, points in by_class.items() for a, b in ranges(points))
    out += rows([f"{{0x{a:x}, 0x{b:x}, {number}}}," for a, b, number in items], 5)
    out += ["};", "constexpr Pair compositions[] = {"]
    out += rows([f"{{0x{a:x}, 0x{b:x}, 0x{c:x}}}," for a, b, c in compositions()], 4)
    out.append("};")
    path = ROOT / "text" / "src" / "tokenizer" / "unicode_data.inc"
    path.write_text("\n".join(line.rstrip() for line in out) + "\n")
    print(f"{path.relative_to(ROOT)}: {len(out)} lines, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
