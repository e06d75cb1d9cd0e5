#!/usr/bin/env python3
"""Large units, as scripts/quickstart builds them, hold several files of a library: names that are private to a file must not collide.

Two files may overload a function: by other types of parameters, or, if one is a template, by another number of them. A name of a file in
a namespace inside ringshard must not be that of a function of base either, which other files of the unit then would not find.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = re.compile(r"ringshard_library\((\w+)(.*?)\)", re.DOTALL)
OTHER = re.compile(r"(?:struct|class|enum class) (\w+)[^;]*$|(?:constexpr|const) [^(=]*?\b(\w+)(?:\[\])?(?: =|\{)")
ALIAS = re.compile(r"using (\w+) = (.*)")
FUNCTION = re.compile(r"^(template <[^\n]*>\n)?(?!return|template|if|for|using)[A-Za-z][\w:<>,&* \[\]]*?[ &*](\w+)\(([^{;]*)\)[\w\s]*\{", re.MULTILINE)


DECLARED = re.compile(r"^(?!return|template|if|for|using|namespace|struct|class|enum|//|#)[A-Za-z\[][\w:<>,&* \[\]]*?[ &*](\w+)\(", re.MULTILINE)


def functions_of_base():
    return {name for header in (ROOT / "include" / "ringshard" / "base").glob("*.hpp") for name in DECLARED.findall(header.read_text())}


def private_parts(text):
    return re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.DOTALL | re.MULTILINE)


def types_of(parameters):
    """The parameters without their names and defaults."""
    depth, words, one = 0, [], ""
    for letter in parameters + ",":
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            words.append(re.sub(r"\s*\b\w+\s*(?:=.*)?$", "", " ".join(one.split())) if " " in one.strip() else one.strip())
            one = ""
        else:
            one += letter
    return tuple(words)


def names_of(path):
    """(name, what tells it from another of this name; None: nothing does)"""
    for part in private_parts(path.read_text()):
        for line in part.splitlines():
            if match := ALIAS.match(line):
                yield match[1], match[2]
            elif match := OTHER.match(line):
                yield match[1] or match[2], None
        for match in FUNCTION.finditer(part):
            yield match[2], (match[1] is not None, types_of(match[3]))


def collide(one, other):
    if isinstance(one, str) and isinstance(other, str):
        return one != other  # an alias may be repeated
    if not (isinstance(one, tuple) and isinstance(other, tuple)):
        return True
    (is_template, types), (other_is_template, other_types) = one, other
    return types == other_types or (is_template or other_is_template) and len(types) == len(other_types)


def main():
    wrong, of_base = [], functions_of_base()
    for library, sources in LIBRARY.findall((ROOT / "src" / "CMakeLists.txt").read_text()):
        seen = collections.defaultdict(list)
        for source in re.findall(r"[\w/]+\.cpp", sources):
            path = ROOT / "src" / source
            is_inside = path.exists() and re.search(r"^namespace ringshard::\w", path.read_text(), re.MULTILINE)
            for name, signature in set(names_of(path)) if path.exists() else ():
                if is_inside and name in of_base:
                    wrong.append(f"{library}: {name} is a name of {source} and of base, which others of its unit do not find then")
                wrong += [f"{library}: {name} is a name of {source} and of {before}"
                          for before, other in seen[name] if before != source and collide(signature, other)]
                seen[name].append((source, signature))
    sys.exit("\n".join(sorted(set(wrong))) or 0)


if __name__ == "__main__":
    main()
