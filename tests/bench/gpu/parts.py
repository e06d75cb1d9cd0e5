"""The kernels of a measured step beside the parts of `trainer plan --parts`: milliseconds planned and measured."""

import collections

BUSY = "all kernels"
STEP = "the whole step"


class Group:
    """Parts of a plan that a profile cannot tell apart, since they share kernels."""

    def __init__(self, names, words, planned_ms):
        self.names = names
        self.words = set(words)
        self.planned_ms = planned_ms  # None of kernels that the plan does not count
        self.kernels = collections.Counter()  # milliseconds by name

    def is_planned(self):
        return self.planned_ms is not None

    def row(self, name):
        measured = sum(self.kernels.values())
        return {"part": name, **row_of(self.planned_ms, measured),
                "kernels": [kernel for kernel, _ in self.kernels.most_common()]}


def row_of(planned_ms, measured_ms):
    ratio = round(measured_ms / planned_ms, 2) if planned_ms else None
    return {"planned_ms": None if planned_ms is None else round(planned_ms, 3), "measured_ms": round(measured_ms, 3), "ratio": ratio}


def groups_of(plan):
    """Parts that share a word are one group."""
    groups = []
    for part in plan["step_parts"]:
        milliseconds = 1e3 * (part["seconds"] + part["hidden_seconds"])
        joined = Group([part["name"]], part["kernels"], milliseconds)
        for other in [group for group in groups if group.words & joined.words]:
            joined = Group(other.names + joined.names, other.words | joined.words, other.planned_ms + joined.planned_ms)
            groups.remove(other)
        groups.append(joined)
    return groups + [Group([part["name"]], part["kernels"], None) for part in plan["uncounted_kernels"]]


def name_of(group, plan):
    """Of many parts of a sum the name of the sum, with what is missing; else the names of the parts."""
    if not group.is_planned():
        return group.names[0]
    many = 5
    names = []
    for of_sum in dict.fromkeys(part["sum"] for part in plan["step_parts"]):
        all_names = [part["name"] for part in plan["step_parts"] if part["sum"] == of_sum]
        here = [name for name in all_names if name in group.names]
        missing = [name for name in all_names if name not in group.names]
        if len(here) >= many or (len(here) > 1 and not missing):
            names.append(of_sum + (f" without {' and '.join(missing)}" if missing else ""))
        else:
            names += here
    return " + ".join(names)


def group_of(kernel, groups):
    """The group with the longest word in the kernel's name, one that the plan counts before others; None if no word is in it."""
    found = [(len(word), group.is_planned(), -place, group) for place, group in enumerate(groups) for word in group.words
             if word in kernel]
    return max(found, key=lambda entry: entry[:3])[-1] if found else None


def beside_plan(plan, measured):
    """plan: the JSON of `trainer plan --parts`. measured: `kernels` with name and microseconds of a step, and the `seconds` of
    one that was not profiled. Returns the rows of the table: each part of the plan, then kernels that it does not count, those
    that have no name here among them, and the sums."""
    groups = groups_of(plan)
    unknown = Group([], [], None)
    for kernel in measured["kernels"]:
        group = group_of(kernel["name"], groups) or unknown
        group.kernels[kernel["name"]] += kernel["microseconds"] / 1e3
    rows = [group.row(name_of(group, plan)) for group in groups if group.is_planned() or group.kernels]
    if unknown.kernels:
        rows.append(unknown.row("kernels without a part"))
    planned = sum(group.planned_ms for group in groups if group.is_planned())
    busy = sum(kernel["microseconds"] for kernel in measured["kernels"]) / 1e3
    return rows + [{"part": BUSY, **row_of(planned, busy)},
                   {"part": STEP, **row_of(1e3 * plan["step_seconds"]["total"], 1e3 * measured["seconds"])}]


def as_table(rows):
    """The rows as lines of text; below kernels without a part are their names."""
    def shown(number, digits):
        return "-" if number is None else f"{number:.{digits}f}"

    lines = [f"{'part':<50} {'planned ms':>11} {'measured ms':>12} {'ratio':>6}"]
    for row in rows:
        lines.append(f"{row['part']:<50} {shown(row['planned_ms'], 1):>11} {shown(row['measured_ms'], 1):>12} "
                     f"{shown(row['ratio'], 2):>6}")
        if row["part"] == "kernels without a part":
            lines += [f"    {kernel}" for kernel in row["kernels"]]
    return lines
