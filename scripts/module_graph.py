#!/usr/bin/env python3
"""Prints the modules and their arrows as a Mermaid graph, from the libraries of CMake: docs/architecture.md, section 4, has a copy.

An arrow points from a module to one that it uses. The graph leaves out base, which all use, and arrows that follow from others. --check
compares the copy, and fails if a source includes a module to which its library does not link.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
LISTS = {"src/base/CMakeLists.txt": "src/base", "text/CMakeLists.txt": "text", "src/CMakeLists.txt": "src"}
LIBRARY = re.compile(r"ringshard_library\((\w+)(?: ATEN)?\s+SOURCES\s(.*?)(?:\s+USES\s(.*?))?\)\s", re.DOTALL)
INCLUDE = re.compile(r'#include\s+[<"]ringshard/(\w+)/')
# Libraries of a module that is in both halves of the program: those of the front, by node.
HALVES = {"device_front": "device", "comm_front": "comm", "mesh_shape": "mesh", "checkpoint_front": "checkpoint",
          "rows": "data", "row_content": "data", "encoding": "data", "cli_front": "cli", "cli_report_failure": "cli"}


def read_libraries():
    sources, uses = {}, {}
    for file, folder in LISTS.items():
        for name, listed, used in LIBRARY.findall((ROOT / file).read_text()):
            sources[name] = [ROOT / folder / source for source in listed.split() if source.endswith(".cpp")]
            uses[name] = [one.removeprefix("ringshard_") for one in used.split() if one.startswith("ringshard_")]
    return sources, {name: [one for one in used if one in sources] for name, used in uses.items()}


def closure(name, uses):
    found = set()
    waiting = list(uses[name])
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += uses[one]
    return found


def module_of(name, sources):
    if name.startswith("text_"):
        return "text"
    return next(source.parent.relative_to(ROOT / "src").parts[0] for source in sources[name])


def node_of(name, sources):
    return f"{HALVES[name]}_front" if name in HALVES else module_of(name, sources)


def reduced(nodes):
    """Without the arrows that follow from others."""
    return {node: sorted(used for used in uses if not any(used in closure(other, nodes) for other in uses - {used}))
            for node, uses in nodes.items()}


def graph(sources, uses):
    nodes, front = {}, set()
    for name in sources:
        node = node_of(name, sources)
        nodes.setdefault(node, set()).update({node_of(one, sources) for one in uses[name]} - {node})
        if name == "cli_front" or name in closure("cli_front", uses):
            front.add(node)
    nodes.pop("base")
    for used in nodes.values():
        used.discard("base")
    groups = {"text": ["text"], "front": [node for node in nodes if node in front and node != "text"],
              "engine": [node for node in nodes if node not in front]}
    lines = ["flowchart TB"]
    for group, members in groups.items():
        lines.append(f"    subgraph the_{group} [{group}]")
        lines += [f'        {node}["{node.replace("_front", " (front)")}"]' for node in members] + ["    end"]
    lines += [f"    {node} --> {' & '.join(used)}" for node, used in reduced(nodes).items() if used]
    return "\n".join(lines) + "\n"


def unlinked(sources, uses):
    for name, files in sources.items():
        linked = {module_of(one, sources) for one in closure(name, uses) | {name}}
        for file in files:
            if file.is_file():
                for module in sorted(set(INCLUDE.findall(file.read_text())) - linked):
                    yield f"{file.relative_to(ROOT)} includes {module}, to which ringshard_{name} does not link"


def main():
    sources, uses = read_libraries()
    drawn = graph(sources, uses)
    if "--check" not in sys.argv:
        print(drawn, end="")
        return
    problems = list(unlinked(sources, uses))
    if f"```mermaid\n{drawn}```\n" not in PAGE.read_text():
        problems.append("docs/architecture.md: the graph of modules is not that of scripts/module_graph.py")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
