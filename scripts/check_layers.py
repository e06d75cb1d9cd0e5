#!/usr/bin/env python3
"""The architecture as a test: which module may include which, and what public headers keep out.

MAY_USE lists the modules from base up: an entry may name only entries before it. A module may include headers of its entries alone,
and name their namespaces alone.
"""

import pathlib
import re
import sys

MAY_USE = {
    "base": set(),
    "config": {"base"},
    "job": {"base"},
    "device": {"base", "config"},
    "comm": {"base"},
    "watch": {"base", "comm"},
    "mesh": {"base", "config", "comm"},
    "ops": {"base"},
    "attention": {"base", "comm", "ops"},
    "offload": {"base"},
    "shard": {"base", "comm", "mesh", "ops", "offload"},
    "model": {"base", "config", "comm", "mesh", "ops", "attention", "offload", "shard"},
    "hub": {"base", "config", "comm", "mesh", "ops", "attention", "offload", "shard", "model"},
    "peft": {"base", "config", "comm", "mesh", "ops", "attention", "offload", "shard", "model", "hub"},
    "text": {"base"},
    "data": {"base", "text", "config", "comm"},
    "optim": {"base", "config", "comm", "ops", "offload", "shard"},
    "checkpoint": {"base", "comm", "offload", "shard", "data", "optim"},
    "report": {"base", "text", "checkpoint"},
    "train": {"base", "config", "job", "device", "comm", "mesh", "ops", "attention", "offload", "shard", "model", "hub", "peft", "data", "optim",
              "checkpoint", "report", "watch"},
    "prove": {"base", "config", "comm", "mesh", "ops", "attention", "shard", "model", "hub", "peft", "data", "optim", "train"},
    "plan": {"base", "config", "device", "comm", "mesh", "ops", "attention", "offload", "shard", "model", "hub", "peft", "optim", "train"},
    "run": {"base", "text", "config", "job", "device", "comm", "mesh", "ops", "attention", "offload", "shard", "model",
            "hub", "peft", "data", "optim", "checkpoint", "report", "train", "watch", "prove", "plan"},
    "cli": {"base", "text", "config", "job", "device", "comm", "mesh", "ops", "attention", "offload", "shard", "model", "hub",
            "peft", "data", "optim", "checkpoint", "report", "train", "watch", "prove", "plan", "run"},
}
# Headers whose types must not leak out of the module that uses them.
KEPT_INSIDE = re.compile(r'#include\s+[<"](nccl|pcre2|arrow|parquet|cuda|cublas|cudnn|c10/cuda|ATen/cuda|hdf5|H5|yaml-cpp|nlohmann/json\.hpp|torch/torch\.h)')
# Only optim, the kernels of ops and the settings with their help name an optimizer; all others use optim::Optimizer.
OPTIMIZERS = re.compile(r"adamw|\blion\b", re.IGNORECASE)
KNOWS_OPTIMIZERS = {"optim", "ops", "config"}
# Only base/parse_json.cpp makes values of nlohmann from text: by base/json_parser.cpp, the parser of JSON that all others use, too.
PARSES_JSON = re.compile(r"(?:json|JSON|Json)::(?:parse|accept|sax_parse|from_\w+)\(|json_sax")
INCLUDE = re.compile(r'#include\s+[<"]ringshard/(\w+)/')
NAMESPACE = re.compile(rf'(?<![\w:.>])(?:ringshard::)?({"|".join(MAY_USE)})::')
COMMENTS_AND_TEXTS = re.compile(r'//.*|"(?:\\.|[^"\\\n])*"')
CONDITIONAL = re.compile(r'^\s*#\s*(if|ifdef|ifndef|elif)\b')

root = pathlib.Path(__file__).resolve().parent.parent
# Only the files of architectures/ name a family of models.
FAMILIES = re.compile(rf"\b({'|'.join(path.stem for path in (root / 'src/model/architectures').glob('*.cpp'))})\b", re.IGNORECASE)
order = list(MAY_USE)
errors = [f"MAY_USE: {module} stands before {used}, which it uses"
          for module in order for used in MAY_USE[module] if order.index(used) > order.index(module)]

# Folders of sources, and the module of each; None: a folder for each module.
FOLDERS = {"include/ringshard": None, "src": None, "text/include/ringshard": None, "text/src": "text"}

for folder, owner in FOLDERS.items():
    for path in sorted((root / folder).rglob("*")):
        if path.suffix not in {".hpp", ".cpp", ".cu", ".cuh"}:
            continue
        place = path.relative_to(root)
        module = owner or path.relative_to(root / folder).parts[0]
        text = path.read_text()
        for number, line in enumerate(text.splitlines(), 1):
            if CONDITIONAL.match(line):
                errors.append(f"{place}:{number}: choose files, not lines: {line.strip()}")
            if "include" in folder and KEPT_INSIDE.search(line):
                errors.append(f"{place}:{number}: a public header keeps this out: {line.strip()}")
            if PARSES_JSON.search(line):
                errors.append(f"{place}:{number}: parse JSON with base/parse_json.hpp: {line.strip()}")
            if re.search(r"torch/torch\.h", line):
                errors.append(f"{place}:{number}: torch/torch.h takes 19 seconds to compile")
        if OPTIMIZERS.search(text) and module not in KNOWS_OPTIMIZERS and path.name != "reference.cpp":
            errors.append(f"{place}: names an optimizer; use optim::Optimizer")
        if module == "model" and "architectures" not in place.parts:
            errors += [f"{place}: names a family of models, {name}; its file in architectures/ says what is its own" for name in set(FAMILIES.findall(text))]
        if module == "main.cpp":
            continue
        if module not in MAY_USE:
            errors.append(f"{place}: module {module} is not in the table of scripts/check_layers.py")
            continue
        for used in set(INCLUDE.findall(text)) - {module}:
            if used not in MAY_USE[module]:
                errors.append(f"{place}: {module} may not include {used}")
        # A header may bring the types of a module that the file does not include.
        named = set(NAMESPACE.findall(COMMENTS_AND_TEXTS.sub("", text))) - set(INCLUDE.findall(text)) - {module}
        errors += [f"{place}: {module} may not name {used}::" for used in sorted(named - MAY_USE[module])]
        if "include" in folder and "#pragma once" not in text:
            errors.append(f"{place}: no #pragma once")

# The folders of `cli` whose sources commands use include no command.
COMMANDS = {path.name for path in (root / "src/cli").rglob("commands/*.hpp")}
for folder in ("front", "front/help"):
    for path in sorted((root / "src/cli" / folder).glob("*.?pp")):
        errors += [f"{path.relative_to(root)}: includes {name} of a command"
                   for name in re.findall(r'#include "(\w+\.hpp)"', path.read_text()) if name in COMMANDS]

# A public header is one that another module includes, itself or within such a header.
public = {path.relative_to(root / folder).as_posix(): path for folder in ("include", "text/include")
          for path in sorted((root / folder).rglob("*.hpp"))}
PUBLIC_INCLUDE = re.compile(r'#include\s+[<"](ringshard/[^>"]+)')
reached = set()
waiting = []
for folder, owner in FOLDERS.items():
    for path in sorted((root / folder).rglob("*")):
        if path.suffix in {".hpp", ".cpp", ".cu", ".cuh"}:
            module = owner or path.relative_to(root / folder).parts[0]
            waiting += [name for name in PUBLIC_INCLUDE.findall(path.read_text()) if name.split("/")[1] != module]
while waiting:
    name = waiting.pop()
    if name in public and name not in reached:
        reached.add(name)
        waiting += PUBLIC_INCLUDE.findall(public[name].read_text())
errors += [f"{public[name].relative_to(root)}: no other module includes it; it belongs beside the sources"
           for name in sorted(set(public) - reached)]

main_lines = len((root / "src/main.cpp").read_text().splitlines())
if main_lines >= 60:
    errors.append(f"src/main.cpp has {main_lines} lines; it is the program in order, under 60")

print("\n".join(errors) if errors else "layers: as agreed")
sys.exit(1 if errors else 0)
