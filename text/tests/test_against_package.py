"""Tokenizers against the `tokenizers` package itself, on freshly made vocabularies and texts.

Every kind of pipeline is trained here with the package, written as tokenizer.json, and then both sides encode and
decode the same random texts: ids with and without special tokens, the span of every token, and text made of
arbitrary ids. Nothing may differ. RINGSHARD_TEST_SEED repeats a run; without it every run sees other texts.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

try:
    from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                            trainers)
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOOL = os.environ.get("TOKENIZER_TOOL", "build/release/bin/tokenizer_tool")
SEED = int(os.environ.get("RINGSHARD_TEST_SEED", random.SystemRandom().randrange(1 << 30)))
STRINGS = int(os.environ.get("RINGSHARD_TEST_STRINGS", 21_000))  # over all kinds

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|")
NEMO = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
          r"|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

WORDS = """the of and to in is that for it as was with be on not he by are this at from have or an they which one you
had all were when there can more if out so said what its about than into could time two first then some these may do
it's don't we'll I'VE they'RE he'd DON'T naïve café Café über straße Größe déjà garçon niño mañana résumé İstanbul ǅ
привет мир слово дом Москва αβγ λόγος Ελλάδα שלום مرحبا नमस्ते हिन्दी ไทย 日本語 漢字かな交じり文 中文字符 한국어 조선말 안녕
x1 v2.0 3.14159 1000000 2024-03-05 0xFF ½ ² Ⅷ ٣٤ ४२ def return self.value == None if(x){y;} #include <vector> </s> lone
lonely abc abcdef abcd <norm> <NORM> Solo solo two words tw o http://a.b/c?d=e&f#g e\u0301 a\u0323\u0307 \u1100\u1161\u11a8
""".split()
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u3000", "\u00a0", "\u2028", "\u180e", "\u200b", "\x0b", "\x85",
          " \t ", "        ", "\n    ", ""]
SPECIAL = ["<s>", "</s>", "<|left|>", "<|right|>", "<|both|>", "lone", "Café", "Cafe\u0301", "WideÅ", "tw o", "abc", "abcdef",
           "<norm>", "<NORM>", "Solo", "[CLS]", "\u2581", "<0x41>", "<unk>", "ſ", "'ſ", "'S", "ﬃ", "㎏", "①"]
PLANES = [(0, 0x80), (0x80, 0x250), (0x250, 0x600), (0x600, 0x1000), (0x1000, 0x2000), (0x2000, 0x2c00), (0x2c00, 0x3400),
          (0x3400, 0xa000), (0xa000, 0xd800), (0xe000, 0x10000), (0x10000, 0x11000), (0x11000, 0x17000),
          (0x1d000, 0x20000), (0x20000, 0x30000), (0xe0000, 0x110000)]


def random_text(rng):
    kind = rng.randrange(12)
    if kind < 5:  # prose, with now and then something else between
        parts = []
        for _ in range(rng.randrange(1, 25)):
            parts.append(rng.choice(WORDS) if rng.random() < 0.85 else rng.choice(SPECIAL))
            parts.append(" " if rng.random() < 0.7 else rng.choice(SPACES))
        return "".join(parts)
    if kind < 7:  # special tokens and spaces side by side
        return "".join(rng.choice(rng.choice((SPECIAL, SPACES, WORDS))) for _ in range(rng.randrange(1, 12)))
    if kind == 7:  # any characters of one plane
        low, high = rng.choice(PLANES)
        return "".join(chr(rng.randrange(low, high)) for _ in range(rng.randrange(1, 30)))
    if kind == 8:  # any characters
        return "".join(chr(rng.randrange(*rng.choice(PLANES))) for _ in range(rng.randrange(1, 20)))
    if kind == 9:  # bytes that happen to be text
        return bytes(rng.randrange(256) for _ in range(rng.randrange(1, 60))).decode("utf-8", "replace")
    if kind == 10:  # long runs
        return "".join(rng.choice([" ", "a", "\n", "1", "é", "!", "\u0301", "\u2581", "漢"]) * rng.randrange(1, 80) for _ in range(3))
    marks = [chr(p) for p in (0x300, 0x301, 0x323, 0x307, 0x327, 0x334, 0x5b0, 0x93c, 0x94d, 0x3099, 0x1161, 0x11a8, 0x345)]
    return "".join(rng.choice("aeoudsAEO가各नか\u1100ǖ\u1e69") + "".join(rng.choice(marks) for _ in range(rng.randrange(4)))
                   for _ in range(rng.randrange(1, 12)))


def added_tokens():
    return [
        AddedToken("<|left|>", lstrip=True, normalized=False, special=True),
        AddedToken("<|right|>", rstrip=True, normalized=False, special=True),
        AddedToken("<|both|>", lstrip=True, rstrip=True, normalized=False),
        AddedToken("lone", single_word=True, normalized=False),
        AddedToken("Café", normalized=True),
        AddedToken("WideÅ", normalized=False),
        AddedToken("tw o", normalized=True),
        AddedToken("abc", normalized=False),
        AddedToken("abcdef", normalized=False),
        AddedToken("<norm>", lstrip=True, normalized=True),
        AddedToken("Solo", single_word=True, lstrip=True, rstrip=True, normalized=True, special=True),
    ]


def byte_level(pre, normalizer=None, post=None, alphabet=True, **model):
    return dict(model=model, pre=pre, normalizer=normalizer, post=post or processors.ByteLevel(trim_offsets=False),
                decoder=decoders.ByteLevel(), alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else [])


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


SENTENCEPIECE_DECODER = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                         decoders.Strip(" ", 1, 0)]


def sentencepiece(pre=None, normalizer=None, decoder=None, **model):
    return dict(model=dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True) | model, pre=pre, normalizer=normalizer,
                post="template", decoder=decoder or decoders.Sequence(SENTENCEPIECE_DECODER), alphabet=[])


def plain(pre, normalizer=None, decoder=None, **model):
    return dict(model=dict(unk_token="<unk>") | model, pre=pre, normalizer=normalizer, post="template", decoder=decoder,
                alphabet=[])


def kinds():
    P, N = pre_tokenizers, normalizers
    sequence = P.Sequence
    result = {
        "qwen2": byte_level(split_then_bytes(QWEN2), N.NFC()),
        "llama3": byte_level(split_then_bytes(LLAMA3), ignore_merges=True,
                             post="sequence"),
        "cl100k": byte_level(split_then_bytes(CL100K)),
        "o200k": byte_level(split_then_bytes(O200K)),
        "nemo": byte_level(split_then_bytes(NEMO)),
        "gpt2": byte_level(P.ByteLevel(add_prefix_space=False), post=processors.ByteLevel(trim_offsets=True)),
        "gpt2_prefix": byte_level(P.ByteLevel(add_prefix_space=True),
                                  post=processors.ByteLevel(add_prefix_space=True, trim_offsets=True)),
        "prefix_split": byte_level(sequence([P.Split(" ", "merged_with_next"), P.ByteLevel(add_prefix_space=True)])),
        "smollm": byte_level(sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False)])),
        "deepseek": byte_level(sequence([P.Split(Regex(r"[\r\n]"), "isolated"), P.Split(Regex(r"\s?\p{L}+"), "isolated"),
                                         P.Split(Regex(r"\s?\p{P}+"), "isolated"), P.Split(Regex("[一-龥ࠀ-一가-퟿]+"), "isolated"),
                                         P.Digits(individual_digits=True),
                                         P.ByteLevel(add_prefix_space=False, use_regex=False)])),
        "few_bytes": byte_level(P.ByteLevel(add_prefix_space=False), alphabet=False),
        "few_bytes_unk": byte_level(P.ByteLevel(add_prefix_space=True), alphabet=False, unk_token="<unk>",
                                    post=processors.ByteLevel(trim_offsets=True)),
        "bytes_nfkd": byte_level(P.ByteLevel(add_prefix_space=False), N.Sequence([N.NFKD(), N.Lowercase(), N.Strip()]),
                                 post=processors.ByteLevel(trim_offsets=True)),
        "sp_legacy": sentencepiece(None, N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")])),
        "sp_first": sentencepiece(P.Metaspace("\u2581", "first", split=False)),
        "sp_always": sentencepiece(P.Metaspace("\u2581", "always", split=False)),
        "sp_never": sentencepiece(P.Metaspace("\u2581", "never", split=False),
                                  decoder=decoders.Sequence(SENTENCEPIECE_DECODER[:3])),
        "sp_split": sentencepiece(P.Metaspace("\u2581", "always", split=True), decoder=decoders.Metaspace()),
        "sp_first_split": sentencepiece(P.Metaspace("\u2581", "first", split=True), N.NFKC(), decoder=decoders.Metaspace()),
        "sp_unk": sentencepiece(P.Metaspace("\u2581", "first", split=False), byte_fallback=False),
        "sp_unk_unfused": sentencepiece(P.Metaspace("\u2581", "first", split=False), byte_fallback=False, fuse_unk=False),
        "gemma": sentencepiece(P.Split(" ", "merged_with_previous"), N.Replace(" ", "\u2581"),
                               decoder=decoders.Sequence(SENTENCEPIECE_DECODER[:3])),
        "nfkc_lower": plain(sequence([P.Whitespace(), P.Punctuation(), P.Digits(individual_digits=True)]),
                            N.Sequence([N.NFKC(), N.Lowercase()])),
        "nfd_strip": plain(sequence([P.WhitespaceSplit(), P.Digits(individual_digits=False)]),
                           N.Sequence([N.NFD(), N.Strip(left=True, right=False), N.Replace(Regex(r"\s+"), " ")])),
        "regex_replace": plain(P.Punctuation("contiguous"),
                               N.Sequence([N.Replace(Regex(r"[aeiou]{2,}"), "<>"), N.Replace("th", "")])),
        "nothing": plain(None),
        "no_unk": plain(None, unk_token=None),
        "words_metaspace": plain(sequence([P.Whitespace(), P.Metaspace("\u2581", "first")]), N.NFC()),
    }
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            result[f"split_{behavior}{'_inverted' * invert}"] = plain(P.Split(Regex(r"\d+|\s|[\p{Lu}\p{P}]"), behavior, invert))
        result[f"punctuation_{behavior}"] = plain(P.Punctuation(behavior))
    return result


def build(kind, corpus):
    tokenizer = Tokenizer(models.BPE(**kind["model"]))
    if kind["normalizer"] is not None:
        tokenizer.normalizer = kind["normalizer"]
    if kind["pre"] is not None:
        tokenizer.pre_tokenizer = kind["pre"]
    special = ["<unk>", "<s>", "</s>"]
    if kind["model"].get("byte_fallback"):
        special += [f"<0x{byte:02X}>" for byte in range(256)]
    # Words of a text without pre-tokenizer are whole lines, from which little can be learned.
    lines = corpus if kind["pre"] is not None else [word for line in corpus for word in line.split(" ")]
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=900, special_tokens=special, show_progress=False,
                                                             initial_alphabet=kind["alphabet"], limit_alphabet=150))
    if kind["model"].get("byte_fallback"):  # the trainer made added tokens of them, which they are not
        content = json.loads(tokenizer.to_str())
        content["added_tokens"] = [t for t in content["added_tokens"] if not t["content"].startswith("<0x")]
        tokenizer = Tokenizer.from_str(json.dumps(content))
    if kind["decoder"] is not None:
        tokenizer.decoder = kind["decoder"]
    template = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    if kind["post"] == "template":
        tokenizer.post_processor = template
    elif kind["post"] == "sequence":
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    else:
        tokenizer.post_processor = kind["post"]
    tokenizer.add_tokens(added_tokens())
    return tokenizer


def ask(path, requests):
    text = "\n".join(json.dumps(request) for request in requests) + "\n"
    answer = subprocess.run([TOOL, str(path)], input=text, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.split("\n") if line]


class AgainstPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.rng = random.Random(SEED)
        cls.corpus = [random_text(cls.rng) for _ in range(1500)]
        print(f"seed {SEED}", flush=True)

    def compare(self, name, tokenizer, count):
        path = pathlib.Path(self.folder.name) / f"{name}.json"
        tokenizer.save(str(path))
        tokenizer = Tokenizer.from_file(str(path))
        texts = [random_text(self.rng) for _ in range(count)] + [""]
        size = tokenizer.get_vocab_size() + 20
        lists = [[self.rng.randrange(size) for _ in range(self.rng.randrange(12))] for _ in range(count // 4)]
        head, *answers = ask(path, [{"text": text} for text in texts] + [{"decode": ids} for ids in lists])
        self.assertEqual(head, {"vocab_size": tokenizer.get_vocab_size()}, name)
        for text, answer in zip(texts, answers):
            encoding = tokenizer.encode(text)
            wanted = {
                "ids": encoding.ids,
                "offsets": [list(offsets) for offsets in encoding.offsets],
                "ids_no_special": tokenizer.encode(text, add_special_tokens=False).ids,
                "decoded": tokenizer.decode(encoding.ids, skip_special_tokens=False),
                "decoded_skip_special": tokenizer.decode(encoding.ids),
            }
            self.assertEqual(answer, wanted, f"{name}, seed {SEED}: {text!r}")
        for ids, answer in zip(lists, answers[len(texts):]):
            wanted = {"decoded": tokenizer.decode(ids, skip_special_tokens=False), "decoded_skip_special": tokenizer.decode(ids)}
            self.assertEqual(answer, wanted, f"{name}, seed {SEED}: {ids}")

    def test_all_kinds(self):
        all_kinds = kinds()
        for name, kind in all_kinds.items():
            with self.subTest(name):
                self.compare(name, build(kind, self.corpus), STRINGS // len(all_kinds) + 1)


if __name__ == "__main__":
    unittest.main()
