"""Rows in the form of four data sets, for the builders that make tokens of them. The same rows everywhere: no random numbers but these."""

import json

WORDS = """a man holds the rope and pulls it up. She opens an old book, then closes the door; Rome was founded in 753 BC near the Tiber river
naïve café über straße 日本語 привет "quoted" it's 3.14 ( [brackets] {braces} <tags> & more\n\n tabs\t end! Why? 12345 x_1""".split(" ")


class Numbers:
    """A generator of whole numbers that is the same in every Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, count):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        return (self.state >> 33) % count

    def text(self, least, most):
        return " ".join(WORDS[self.below(len(WORDS))] for _ in range(least + self.below(most - least)))


def hellaswag(count):
    n = Numbers(1)
    return [{"ind": i, "activity_label": "Roof", "ctx_a": "", "ctx_b": "", "ctx": n.text(3, 30), "endings": [n.text(1, 12) for _ in range(4)],
             "source_id": f"activitynet~{i}", "split": "train", "split_type": "indomain", "label": str(n.below(4))} for i in range(count)]


def squad(count):
    n = Numbers(2)
    return [{"id": f"{i:024x}", "title": "Rome", "context": n.text(10, 60), "question": n.text(3, 12) + "?",
             "answers": {"text": [" " * n.below(2) + n.text(1, 6) + " " * n.below(2)] + [n.text(1, 3)] * n.below(3), "answer_start": [0]}}
            for i in range(count)]


def xlam(count):
    n = Numbers(3)
    kinds = ["str", "int", "float", "bool", "List[int]", "Dict[str, int]", "str, optional", "int, optional", "list", "dict", "Optional[str]",
             "Tuple[int, str]", "Set[str]", "Callable[[float], float]", "list[str]", "Union[int, float]"]
    rows = []
    for i in range(count):
        tools = []
        for t in range(1 + n.below(3)):
            parameters = {}
            for p in range(n.below(4)):
                parameter = {"description": n.text(1, 8), "type": kinds[n.below(len(kinds))]}
                if n.below(3) == 0:
                    parameter["default"] = ["", "en", 5, None, True][n.below(5)]
                parameters[f"p{p}"] = parameter
            tools.append({"name": f"tool_{t}", "description": n.text(2, 10), "parameters": parameters})
        answers = [{"name": f"tool_{n.below(len(tools))}", "arguments": {"p0": n.text(1, 4), "p1": n.below(100), "p2": [1, 2], "p3": None}}
                   for _ in range(1 + n.below(2))]
        rows.append({"id": i, "query": n.text(4, 20), "answers": json.dumps(answers), "tools": json.dumps(tools)})
    return rows


def alpaca(count):
    n = Numbers(4)
    return [{"instruction": n.text(2, 15), "input": n.text(1, 12) if n.below(2) else "", "output": n.text(1, 25)} for _ in range(count)]
