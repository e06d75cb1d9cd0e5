#!/usr/bin/env python3
"""Writes text/src/unicode/data.inc: properties and mappings of every code point.

Tokenizers need them as the package `tokenizers` has them. It draws on five libraries of different Unicode versions (its
normalization forms are those of Unicode 9, its regular expressions those of a later one), so a table of any one version would
differ from it somewhere: this script asks the package itself. Chat templates need them as Python has them, which has a version
of its own: the table holds the differences. Run it with .deps/venv/bin/python after an update of the package or of Python.
"""

import pathlib
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVERY = range(0x110000)
POINTS = [p for p in EVERY if not 0xD800 <= p < 0xE000]
ALL = "".join(map(chr, POINTS))
# The order is that of category_names in the reader. The last one stands for code points without a category.
CATEGORIES = ("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
              "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "")


# ---- What the package knows ----


def removed_by(splitter):
    """The code points that a pre-tokenizer takes away."""
    kept = set()
    for _, (first, last) in splitter.pre_tokenize_str(ALL):
        kept.update(POINTS[first:last])
    return {p for p in POINTS if p not in kept}


def matched_by(pattern):
    return removed_by(pre_tokenizers.Split(Regex(pattern), "removed"))


def categories_of_package():
    """The general category of every code point, as the package's regular expressions see it."""
    found = [len(CATEGORIES) - 1] * len(EVERY)
    for number, name in enumerate(CATEGORIES[:-1]):
        for p in matched_by(rf"\p{{{name}}}"):
            assert found[p] == len(CATEGORIES) - 1, p
            found[p] = number
    for letter in "LMNPSZ":
        whole = {p for p in POINTS if CATEGORIES[found[p]].startswith(letter)}
        assert whole == matched_by(rf"\p{{{letter}}}"), letter
    return found


def properties_of_package():
    white = removed_by(pre_tokenizers.WhitespaceSplit())
    assert matched_by(r"\s") == white, "the two kinds of white space differ"
    # Whitespace removes what is neither \w nor \W\S; a word character joins another one.
    word = {p for p in POINTS if len(pre_tokenizers.Whitespace().pre_tokenize_str("a" + chr(p))) == 1 and p not in white}
    return {
        "white": white,
        "word": word,
        "numeric": {p for p in POINTS if len(pre_tokenizers.Digits().pre_tokenize_str("1" + chr(p))) == 1},
        "punctuation": removed_by(pre_tokenizers.Punctuation("removed")),
        # \w in a regular expression of the file, which is another engine's than the one of Whitespace.
        "regex_word": matched_by(r"\w"),
    }


def mapping(changed):
    """Code points that change, with the text that replaces them."""
    return {p: changed(chr(p)) for p in POINTS if changed(chr(p)) != chr(p)}


def hangul(p):
    return 0xAC00 <= p <= 0xD7A3


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


def not_composed(canonical):
    """Code points that decompose to several and are not composed again. The reader derives all pairs from the others."""
    nfc = normalizers.NFC()
    pairs = set()
    for p in POINTS:
        parts = unicodedata.decomposition(chr(p)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(x, 16) for x in parts)
            if nfc.normalize_str(chr(first) + chr(second)) == chr(p):
                pairs.add((first, second, p))
    composed = {p for _, _, p in pairs}
    known = {}
    for p, text in sorted(canonical.items(), key=lambda item: (len(item[1]), item[0])):
        if p in composed:
            first = ord(text[0])
            for mark in text[1:-1]:
                first = known[first, ord(mark)]
            known[first, ord(text[-1])] = p
    assert pairs == {(a, b, p) for (a, b), p in known.items()}, "a pair is not derived"
    return sorted(p for p, text in canonical.items() if len(text) > 1 and p not in composed)


# ---- What Python knows ----


def category_of_python(p):
    name = unicodedata.category(chr(p))
    return CATEGORIES.index(name if name in CATEGORIES else "")


def properties_of_python():
    holds = {
        "alpha": str.isalpha,
        "decimal": str.isdecimal,
        "digit": str.isdigit,
        "number": str.isnumeric,
        "printable": str.isprintable,
        "space": str.isspace,
        "upper": str.isupper,
        "lower": str.islower,
        "title": lambda c: unicodedata.category(c) == "Lt",
        # A sigma is final behind a letter, also where the code point between them is ignored.
        "case_ignorable": lambda c: ("A" + c + "\u03a3").lower()[-1] == "\u03c2" != (c + "\u03a3").lower()[-1],
        "name_start": str.isidentifier,
        "name_part": lambda c: ("a" + c).isidentifier(),
    }
    found = {f"python_{name}": {p for p in EVERY if check(chr(p))} for name, check in holds.items()}
    cased = {p for p in EVERY if (chr(p) + "a").title()[-1] == "a"}
    assert cased == found["python_upper"] | found["python_lower"] | found["python_title"], "the cased letters"
    return found


# ---- The file ----


def rows(values):
    line = "   "
    for value in values:
        if len(line) + len(value) > 138:
            yield line
            line = "   "
        line += " " + value
    yield line


def emit(out, kind, name, values):
    out.append(f"constexpr {kind} {name}[] = {{")
    out.extend(rows([f"{value}," for value in values]))
    out.append("};")


def ranges(points):
    result = []
    for point in sorted(points):
        if result and result[-1][1] == point - 1:
            result[-1][1] = point
        else:
            result.append([point, point])
    return result


def gaps_and_counts(points):
    end = 0
    for first, last in ranges(points):
        yield first - end
        yield last + 1 - first
        end = last + 1


def emit_categories(out, found):
    """Runs: the length times 32, and the category."""
    runs = []
    for category in found:
        if runs and runs[-1][1] == category:
            runs[-1][0] += 1
        else:
            runs.append([1, category])
    emit(out, "uint32_t", "categories", [length * 32 + category for length, category in runs])


def emit_category_changes(out, found, own):
    """For each category the code points that have it in Python only: how many numbers, and gaps and counts."""
    numbers = []
    for category in range(len(CATEGORIES)):
        changes = list(gaps_and_counts(p for p in EVERY if own[p] == category != found[p]))
        numbers += [len(changes), *changes]
    emit(out, "uint32_t", "python_categories", numbers)


def emit_property(out, name, points, found):
    """The categories that most often have the property, and the code points where that is wrong."""
    balance = [0] * len(CATEGORIES)
    for p in EVERY:
        balance[found[p]] += 1 if p in points else -1
    mask = {number for number, value in enumerate(balance) if value > 0}
    flips = [p for p in EVERY if (p in points) != (found[p] in mask)]
    if flips:
        emit(out, "uint32_t", name + "_flips", gaps_and_counts(flips))
    out.append(f"constexpr Property {name}{{{sum(1 << number for number in mask)}, {name + '_flips' if flips else '{}'}}};")


def emit_mapping(out, name, table, base=None):
    """Stretches have one difference throughout; blocks are neighbours with texts of one length. What `base` has is left out."""
    if base is not None:
        base_name, base = base
        table = {p: table.get(p, chr(p)) for p in table.keys() | base.keys() if table.get(p, chr(p)) != base.get(p, chr(p))}
    points = sorted(table)

    def stretch(i):
        """The step and the number of code points that change by the same difference from here."""
        if len(table[points[i]]) > 1 or i + 1 == len(points):
            return 1, int(len(table[points[i]]) == 1)
        step, difference, count = points[i + 1] - points[i], ord(table[points[i]]) - points[i], 1
        while (step <= 2 and i + count < len(points) and points[i + count] == points[i] + step * count
               and table[points[i + count]] == chr(points[i + count] + difference)):
            count += 1
        return (step, count) if count > 1 else (1, 1)

    stretches, blocks, text, i = [], [], [], 0
    while i < len(points):
        step, count = stretch(i)
        first, length = points[i], len(table[points[i]])
        is_alone = i + 1 == len(points) or points[i + 1] != first + 1 or len(table[points[i + 1]]) != length
        if count >= 3 or (count > 0 and is_alone):
            stretches.append(f"{{{first}, {first + step * (count - 1)}, {step}, {ord(table[first]) - first}}}")
        else:
            count = 1
            while (i + count < len(points) and points[i + count] == first + count and len(table[first + count]) == length
                   and stretch(i + count)[1] < 4):
                count += 1
            blocks.append(f"{{{first}, {count}, {length}, {len(text)}}}")
            text += [ord(c) for p in points[i : i + count] for c in table[p]]
        i += count
    parts = []
    for kind, suffix, values in (("Stretch", "stretches", stretches), ("Block", "blocks", blocks), ("char32_t", "text", text)):
        if values:
            emit(out, kind, f"{name}_{suffix}", values)
        parts.append(f"{name}_{suffix}" if values else "{}")
    parts.append(f"&{base_name}" if base is not None else "nullptr")
    out.append(f"constexpr Mapping {name}{{{', '.join(parts)}}};")


def main():
    out = [
        "// Written by scripts/make_unicode_tables.py: do not edit.",
        f"// The Python package tokenizers {tokenizers.__version__}, and Python with Unicode {unicodedata.unidata_version}.",
    ]
    found = categories_of_package()
    emit_categories(out, found)
    for name, points in properties_of_package().items():
        emit_property(out, name, points, found)
    lower = mapping(normalizers.Lowercase().normalize_str)
    emit_mapping(out, "lower", lower)
    canonical = {p: t for p, t in mapping(normalizers.NFD().normalize_str).items() if not hangul(p)}
    compatible = {p: t for p, t in mapping(normalizers.NFKD().normalize_str).items() if not hangul(p)}
    emit_mapping(out, "canonical", canonical)
    emit_mapping(out, "compatible", compatible, ("canonical", canonical))
    emit(out, "char32_t", "not_composed", not_composed(canonical))
    by_class = {}
    for point, number in combining_classes().items():
        by_class.setdefault(number, []).append(point)
    items = sorted((a, b, number) for number, points in by_class.items() for a, b in ranges(points))
    emit(out, "ClassRange", "combining", [f"{{{a}, {b}, {number}}}" for a, b, number in items])

    own = [category_of_python(p) for p in EVERY]
    emit_category_changes(out, found, own)
    for name, points in properties_of_python().items():
        emit_property(out, name, points, own)
    upper, own_lower = mapping(str.upper), mapping(str.lower)
    emit_mapping(out, "python_lower_case", own_lower, ("lower", lower))
    emit_mapping(out, "python_upper_case", upper)
    emit_mapping(out, "python_title_case", mapping(str.title), ("python_upper_case", upper))
    emit_mapping(out, "python_folded_case", mapping(str.casefold), ("python_lower_case", own_lower))
    path = ROOT / "text" / "src" / "unicode" / "data.inc"
    path.write_text("\n".join(line.rstrip() for line in out) + "\n")
    print(f"{path.relative_to(ROOT)}: {len(out)} lines, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
