"""Bases stored in four and eight bits: a run reads the numbers that the codes stand for, to the bit, and trains adapters beside them.

The codes, scales and zeros are random; what they stand for is computed here, by the definition of each format."""

import json
import math
import os
import random
import shutil
import struct
import sys
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import FolderTest, read_steps, run, some_of  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
CONFIG = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 64,
          "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
          "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True, "mlp_only_layers": [1],
          "max_position_embeddings": 256, "tie_word_embeddings": False, "initializer_range": 0.1}
FLAGS = ["--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false", "--max_length", "48", "--max_steps", "1",
         "--learning_rate", "0", "--logging_steps", "1", "--save_steps", "1", "--full_determinism"]
PEFT = ["--use_peft", "--lora_r", "4", "--lora_dropout", "0", "--lora_target_modules", "q_proj,v_proj"]
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M1 += [-number for number in E2M1]
E4M3 = [math.ldexp(8 + code % 8, code // 8 - 10) if code >= 8 else math.ldexp(code, -9) for code in range(127)]


def fp32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def bf16(number):
    bits = struct.unpack("<I", struct.pack("<f", number))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0]


def words(rows):
    return struct.pack(f"<{len(rows) * len(rows[0])}I", *(word for row in rows for word in row))


def packed(codes, bits, order=range(8)):
    """Words of neighbouring codes, which lie there in this order from the lowest bits on."""
    count = 32 // bits
    return [sum(codes[begin + code] << bits * place for place, code in enumerate(order[:count])) for begin in range(0, len(codes), count)]


def grouped(rng, out, width, bits, group):
    """Codes by input and output, and scales (F16) and zeros by group and output."""
    codes = [[rng.randrange(1 << bits) for _ in range(out)] for _ in range(width)]
    scales = [[struct.unpack("<e", struct.pack("<e", rng.uniform(0.002, 0.02)))[0] for _ in range(out)] for _ in range(0, width, group)]
    zeros = [[rng.randrange(1 << bits) for _ in range(out)] for _ in scales]
    return codes, scales, zeros


def numbers_of(codes, scales, zeros, groups):
    return [scales[groups[i]][o] * (codes[i][o] - zeros[groups[i]][o]) for o in range(len(codes[0])) for i in range(len(codes))]


def halves(rows):
    return struct.pack(f"<{len(rows) * len(rows[0])}e", *(number for row in rows for number in row))


def gptq(name, out, width, rng, bits=4, version=1, act_order=False, has_g_idx=True, group=32, has_bias=False):
    codes, scales, zeros = grouped(rng, out, width, bits, group)
    groups = [i // group for i in range(width)]
    if act_order:
        rng.shuffle(groups)
    module, less, count = name.removesuffix("weight"), 1 if version == 1 else 0, 32 // bits
    filled = codes + [[0] * out] * (-width % count)  # as zeros, to whole words
    qweight = [packed([filled[i + j][o] for o in range(out) for j in range(count)], bits) for i in range(0, width, count)]
    qzeros = [packed([zero - less & (1 << bits) - 1 for zero in row] + [0] * (-out % count), bits) for row in zeros]
    tensors = {module + "qweight": ("I32", [len(qweight), out], words(qweight)),
               module + "qzeros": ("I32", [len(zeros), len(qzeros[0])], words(qzeros)),
               module + "scales": ("F16", [len(scales), out], halves(scales))}
    if has_g_idx:
        tensors[module + "g_idx"] = ("I32", [width], struct.pack(f"<{width}i", *groups))
    if has_bias:
        tensors[module + "bias"] = ("F16", [out], bytes(2 * out))
    return tensors, numbers_of(codes, scales, zeros, groups)


def gptq_by_module(name, out, width, rng):
    """As rules of `dynamic` write it."""
    bits, group = rng.choice(((4, 32), (8, 32), (8, 16), (4, 16)))
    return gptq(name, out, width, rng, bits=bits, group=group, has_g_idx=rng.random() < 0.5)


def awq(name, out, width, rng):
    codes, scales, zeros = grouped(rng, out, width, 4, 32)
    module, order = name.removesuffix("weight"), [0, 2, 4, 6, 1, 3, 5, 7]
    return {module + "qweight": ("I32", [width, out // 8], words([packed(row, 4, order) for row in codes])),
            module + "qzeros": ("I32", [len(zeros), out // 8], words([packed(row, 4, order) for row in zeros])),
            module + "scales": ("F16", [len(scales), out], halves(scales))}, numbers_of(codes, scales, zeros, [i // 32 for i in range(width)])


def nvfp4(name, out, width, rng, by_modelopt=False):
    codes = [rng.randrange(16) for _ in range(out * width)]
    scales = [rng.randrange(1, 127) for _ in range(out * width // 16)]
    whole = fp32(rng.uniform(1e-4, 1e-3) if by_modelopt else rng.uniform(1e3, 1e4))
    read = [fp32(E4M3[code] * whole if by_modelopt else E4M3[code] / whole) for code in scales]
    module = name.removesuffix("weight")
    codes_name, whole_name = ("weight", "weight_scale_2") if by_modelopt else ("weight_packed", "weight_global_scale")
    return {module + codes_name: ("U8", [out, width // 2], bytes(low | high << 4 for low, high in zip(codes[::2], codes[1::2]))),
            module + "weight_scale": ("F8_E4M3", [out, width // 16], bytes(scales)),
            module + whole_name: ("F32", [] if by_modelopt else [1], struct.pack("<f", whole)),
            module + ("input_scale" if by_modelopt else "input_global_scale"): ("F32", [1], struct.pack("<f", 1))}, \
        [bf16(fp32(E2M1[code] * read[i // 16])) for i, code in enumerate(codes)]


def in_words(name, out, width, rng, bits=4, group=32, has_zeros=False, has_g_idx=False, dtype="BF16"):
    codes = [[rng.randrange(1 << bits) for _ in range(width)] for _ in range(out)]
    scales = [[rng.uniform(0.002, 0.02) for _ in range(width // group)] for _ in range(out)]
    zeros = [[rng.randrange(1 << bits) if has_zeros else 1 << bits - 1 for _ in row] for row in scales]
    groups = [i // group for i in range(width)]
    if has_g_idx:
        rng.shuffle(groups)
    data, scales, rounded = stored_scales(scales, dtype)
    module, per_word = name.removesuffix("weight"), 32 // bits
    tensors = {module + "weight_packed": ("I32", [out, math.ceil(width / per_word)], words([packed(row, bits) for row in codes])),
               module + "weight_scale": (dtype, [out, width // group], data),
               module + "weight_shape": ("I64", [2], struct.pack("<2q", out, width))}
    if has_zeros:
        columns = [packed([row[g] for row in zeros], bits) for g in range(width // group)]
        tensors[module + "weight_zero_point"] = ("I32", [len(columns[0]), len(columns)], words(list(zip(*columns))))
    if has_g_idx:
        tensors[module + "weight_g_idx"] = ("I32", [width], struct.pack(f"<{width}i", *groups))
    return tensors, [rounded(scales[o][g] * (codes[o][i] - zeros[o][g])) for o in range(out) for i, g in enumerate(groups)]


def in_blocks(name, out, width, rng, dtype, rows=1, columns=0):
    """Numbers of a byte, with a scale for each block of rows and columns."""
    columns, module = columns or width, name.removesuffix("weight")
    codes = [rng.randrange(127) | rng.randrange(2) << 7 for _ in range(out * width)]
    codes = [0 if code == 128 else code for code in codes]  # -0 in F8_E4M3
    read = [E4M3[code & 127] * (1 - 2 * (code >> 7)) if dtype == "F8_E4M3" else code - 256 * (code >> 7) for code in codes]
    scales = [[rng.uniform(0.002, 0.02) for _ in range(width // columns)] for _ in range(out // rows)]
    data, scales, rounded = stored_scales(scales, "BF16")
    return {name: (dtype, [out, width], bytes(codes)), module + "weight_scale": ("BF16", [out // rows, width // columns], data),
            module + "input_scale": ("BF16", [1], bytes(2))}, \
        [rounded(scales[i // width // rows][i % width // columns] * number) for i, number in enumerate(read)]


def stored_scales(scales, dtype):
    """Their bytes, as numbers, and the rounding of what they multiply."""
    rounded = bf16 if dtype == "BF16" else lambda number: struct.unpack("<e", struct.pack("<e", number))[0]
    scales = [[rounded(scale) for scale in row] for row in scales]
    as_bytes = (lambda scale: struct.pack("<f", scale)[2:]) if dtype == "BF16" else lambda scale: struct.pack("<e", scale)
    return b"".join(as_bytes(scale) for row in scales for scale in row), scales, rounded


def in_many_forms(name, out, width, rng):
    """compressed-tensors has a form for each group of layers."""
    forms = [(nvfp4, {}), (in_words, {}), (in_words, {"has_zeros": True, "dtype": "F16"}), (in_words, {"bits": 8, "has_g_idx": True}),
             (in_words, {"bits": 8, "has_zeros": True, "group": width}), (in_blocks, {"dtype": "I8"}), (in_blocks, {"dtype": "F8_E4M3"}),
             (in_blocks, {"dtype": "F8_E4M3", "rows": 16, "columns": 16}), (in_blocks, {"dtype": "F8_E4M3", "rows": out})]
    make, more = forms[rng.randrange(len(forms))]
    return make(name, out, width, rng, **more)


def in_four_bits(name, out, width, rng, kind="nf4", dtype="float32", is_nested=False, is_quantised=False):
    """is_quantised: values, blocks and a largest weight in each of them as bitsandbytes has them."""
    size = out * width
    values = NF4 if is_quantised else [fp32(rng.uniform(-1, 1)) for _ in range(16)]
    codes = [rng.randrange(16) for _ in range(size)]
    if is_quantised:
        for block in range(0, size, 64):
            codes[block + rng.randrange(64)] = rng.choice((0, 15))
    scales = [fp32(rng.uniform(0.05, 0.3)) for _ in range(math.ceil(size / 64))]
    state = {"quant_type": kind, "blocksize": 64, "dtype": dtype, "shape": [out, width]}
    tensors = {name: ("U8", [size // 2, 1], bytes(high << 4 | low for high, low in zip(codes[::2], codes[1::2]))),
               name + ".quant_map": ("F32", [16], struct.pack("<16f", *values))}
    if is_nested:
        bytes_of_scales = bytes(rng.randrange(256) for _ in scales)
        nested_values = DYNAMIC if is_quantised else [fp32(rng.uniform(-1, 1)) for _ in range(256)]
        block = 256 if is_quantised else 8
        nested = [fp32(rng.uniform(0.01, 0.05)) for _ in range(math.ceil(len(scales) / block))]
        state |= {"nested_blocksize": block, "nested_dtype": "float32", "nested_offset": 0.125}
        scales = [fp32(fp32(nested_values[code] * nested[i // block]) + 0.125) for i, code in enumerate(bytes_of_scales)]
        tensors |= {name + ".absmax": ("U8", [len(scales)], bytes_of_scales),
                    name + ".nested_absmax": ("F32", [len(nested)], struct.pack(f"<{len(nested)}f", *nested)),
                    name + ".nested_quant_map": ("F32", [256], struct.pack("<256f", *nested_values))}
    else:
        tensors[name + ".absmax"] = ("F32", [len(scales)], struct.pack(f"<{len(scales)}f", *scales))
    text = json.dumps(state).encode()
    tensors[f"{name}.quant_state.bitsandbytes__{kind}"] = ("U8", [len(text)], text)
    rounded = bf16 if dtype == "bfloat16" else fp32
    return tensors, [rounded(fp32(values[code] * scales[i // 64])) for i, code in enumerate(codes)]


def in_eight_bits(name, out, width, rng, is_quantised=False):
    """is_quantised: scales of fp16 and rows with a code of 127, as bitsandbytes makes them."""
    codes = [rng.randrange(-127, 128) for _ in range(out * width)]
    scales = [fp32(rng.uniform(0.1, 0.5)) for _ in range(out)]
    if is_quantised:
        for row in range(out):
            codes[row * width + rng.randrange(width)] = rng.choice((-127, 127))
        scales = [struct.unpack("<e", struct.pack("<e", scale))[0] for scale in scales]
    of_code = fp32(7.874015748698502e-3)
    module = name.removesuffix("weight")
    return {name: ("I8", [out, width], struct.pack(f"<{len(codes)}b", *codes)),
            module + "SCB": ("F32", [out], struct.pack(f"<{out}f", *scales)),
            module + "weight_format": ("U8", [], b"\0")}, \
        [fp32(fp32(code * scales[i // width]) * of_code) for i, code in enumerate(codes)]


# The values of NF4, and of codes of nested scales.
with open(os.path.join(DATA, "nf4", "codes.safetensors"), "rb") as golden:
    GOLDEN = golden.read()


def golden_values(name):
    begin = 8 + int.from_bytes(GOLDEN[:8], "little")
    first, last = json.loads(GOLDEN[8:begin])[name]["data_offsets"]
    return list(struct.unpack(f"<{(last - first) // 4}f", GOLDEN[begin + first:begin + last]))


NF4, DYNAMIC = golden_values("values"), golden_values("scale_values")
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": False}
AUTO_ROUND = {"quant_method": "auto-round", "bits": 4, "group_size": 32, "sym": True, "packing_format": "auto_round:auto_gptq"}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
COMPRESSED = {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "ignore": ["lm_head"]}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False}
FORMS = {
    "gptq": (gptq, {}, GPTQ), "gptq without g_idx": (gptq, {"has_g_idx": False}, GPTQ),
    "gptq v2, any order": (gptq, {"version": 2, "act_order": True}, GPTQ | {"checkpoint_format": "gptq_v2", "desc_act": True}),
    # The model has no biases.
    "gptq in 8 bits": (gptq, {"bits": 8, "has_bias": True}, GPTQ | {"bits": 8}),
    "gptq by module": (gptq_by_module, {}, GPTQ | {"dynamic": {"+:.*proj$": {"bits": 8, "group_size": 16}, "-:lm_head": {}}}),
    # The second group of 96 inputs is cut.
    "gptq, a cut group": (gptq, {"group": 64, "has_g_idx": False}, GPTQ | {"group_size": 64}),
    "awq": (awq, {}, AWQ),
    "nvfp4": (nvfp4, {}, COMPRESSED),
    "many forms": (in_many_forms, {}, COMPRESSED | {"format": "mixed-precision", "config_groups": {
        name: {"format": name} for name in ("nvfp4-pack-quantized", "pack-quantized", "int-quantized", "float-quantized")}}),
    "nvfp4 of modelopt": (nvfp4, {"by_modelopt": True}, {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
    "nf4 in bf16": (in_four_bits, {"dtype": "bfloat16"}, BNB),
    "nested fp4": (in_four_bits, {"kind": "fp4", "is_nested": True}, BNB),
    "int8": (in_eight_bits, {}, {"quant_method": "bitsandbytes", "load_in_8bit": True}),
    "auto-round": (gptq, {"has_g_idx": False}, AUTO_ROUND),
    "auto-round by module": (gptq_by_module, {}, AUTO_ROUND | {"extra_config": {"model.layers.0.mlp.up_proj": {"bits": 8, "group_size": 16}}}),
    "auto-round as awq": (awq, {}, AUTO_ROUND | {"packing_format": "auto_round:auto_awq", "sym": False}),
}


def read_tensors(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        content = file.read()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], content[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in header.items()}


def write_tensors(folder, tensors):
    header, end = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in tensors.values()))


def have_equal_numbers(ours, theirs):
    """Equal bits, but that -0 is 0: merging adds 0 to it."""
    (dtype, shape, mine), (other, other_shape, data) = ours, theirs
    return (dtype, other, shape) == ("F32", "F32", other_shape) and \
        struct.unpack(f"<{len(mine) // 4}f", mine) == struct.unpack(f"<{len(data) // 4}f", data)


class StoredCodes(FolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.make_model("model", CONFIG)

    @classmethod
    def make_model(cls, name, fields):
        folder, config = cls.path(name), cls.path(name + ".json")
        with open(config, "w") as file:
            json.dump(fields, file)
        made = run("init", "--config_json", config, "--output_dir", folder)
        assert made.returncode == 0, made.stderr
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(DATA, "models", "qwen2-tiny", file), folder)
        return folder

    def make(self, name, make, more, quantization, model=None):
        """Writes the model with its matrices as codes, and the model of the numbers that they stand for."""
        coded, plain = self.path(name), self.path(name + " as numbers")
        codes, numbers = {}, {}
        model = model or self.model
        for tensor, stored in sorted(read_tensors(model).items()):
            codes[tensor] = numbers[tensor] = stored
            if tensor.endswith("_proj.weight"):
                out, width = stored[1]
                made, read = make(tensor, out, width, random.Random(tensor), **more)
                del codes[tensor]
                codes |= made
                numbers[tensor] = ("F32", stored[1], struct.pack(f"<{len(read)}f", *read))
        for folder, tensors in ((coded, codes), (plain, numbers)):
            shutil.copytree(model, folder)
            write_tensors(folder, tensors)
        self.change_config(coded, quantization)
        return coded, plain, codes

    def change_config(self, model, quantization):
        with open(os.path.join(model, "config.json")) as file:
            config = json.load(file)
        with open(os.path.join(model, "config.json"), "w") as file:
            json.dump(config | {"quantization_config": quantization}, file)

    def train(self, model, output, *flags, ranks=None, peft=PEFT):
        return run("train", *FLAGS, *peft, "--model_name_or_path", model, "--output_dir", output, *flags, ranks=ranks)

    def test_numbers_of_codes(self):
        odd = self.make_model("odd", CONFIG | {"intermediate_size": 90, "moe_intermediate_size": 27})
        odd_forms = {"words filled up": (gptq, {}, GPTQ), "words filled up, without g_idx": (gptq, {"has_g_idx": False}, GPTQ),
                     "words of 8 bits filled up": (gptq, {"bits": 8}, GPTQ | {"bits": 8})}
        for name, (make, more, quantization) in some_of(list(odd_forms.items())) + some_of(list(FORMS.items())):
            with self.subTest(name):
                coded, plain, _ = self.make(name, make, more, quantization, odd if name in odd_forms else None)
                losses = []
                for model in (coded, plain):
                    self.expect(self.train(model, model + " out", "--profile", "zero3", ranks=3), 0)
                    losses.append(read_steps(model + " out")[0]["loss"])
                self.assertEqual(*losses)
                merged = coded + " merged"
                self.expect(run("export", coded + " out/checkpoint-1", "--merge", "true", "--dtype", "float32", "--output_dir", merged), 0)
                ours, theirs = read_tensors(merged), read_tensors(plain)  # B is still 0
                self.assertEqual(set(ours), set(theirs))
                for tensor, stored in theirs.items():
                    self.assertTrue(have_equal_numbers(ours[tensor], stored), tensor)
                with open(os.path.join(merged, "config.json")) as file:
                    self.assertNotIn("quantization_config", json.load(file))
                with open(os.path.join(coded + " out", "adapter_config.json")) as file:
                    self.assertEqual(json.load(file)["base_model_name_or_path"], coded)

    def test_experts_of_ranks(self):
        """Each rank reads the experts of its section; beside nf4 the numbers are quantised again."""
        coded, plain, _ = self.make("shared", awq, {}, AWQ)
        for flags, says in (((), ""), (("--load_in_4bit",), "codes of awq; they are read as numbers, which are quantised to nf4")):
            losses = []
            for model in (coded, plain):
                output = f"{model} {len(flags)}"
                result = self.train(model, output, "--profile", "zero3", "--ep_size", "2", *flags, ranks=2)
                self.expect(result, 0, says if model == coded else "")
                losses.append(read_steps(output)[0]["loss"])
            self.assertEqual(*losses)

    def expect_same_codes(self, name, make, more, form, *runs):
        """Runs in which the base is read as numbers, and in which it is held as codes, compute the same bits."""
        coded, _, _ = self.make(name, make, more, form)
        losses, merged = [], []
        for number, (flags, says) in enumerate((((), ""), *runs)):
            output = f"{coded} {number}"
            self.expect(self.train(coded, output, "--profile", "zero3", *flags, ranks=3), 0, says)
            losses.append(read_steps(output)[0]["loss"])
            self.expect(run("export", output + "/checkpoint-1", "--merge", "true", "--dtype", more.get("dtype", "float32"),
                            "--output_dir", output + " m", ranks=2), 0)
            merged.append(read_tensors(output + " m"))
        for loss, tensors in zip(losses[1:], merged[1:], strict=True):
            self.assertEqual(loss, losses[0])
            self.assertEqual(tensors, merged[0])

    def test_rows_in_eight_bits_keep_their_codes(self):
        form = {"quant_method": "bitsandbytes", "load_in_8bit": True}
        self.expect_same_codes("quantised rows", in_eight_bits, {"is_quantised": True}, form,
                               (("--load_in_8bit",), "which are quantised to int8"))

    def test_four_bits_keep_their_codes(self):
        kept = "those in nf4 are kept"
        nested = ("--load_in_4bit", "--use_bnb_nested_quant")
        self.expect_same_codes("plain scales", in_four_bits, {"is_quantised": True}, BNB, (("--load_in_4bit",), kept))
        self.expect_same_codes("nested scales", in_four_bits, {"is_quantised": True, "is_nested": True}, BNB,
                               (("--load_in_4bit",), kept), (nested, kept))
        # Numbers of bf16, in products of bf16, are rounded once in either case.
        bf16_flags = ("--bf16", "true", "--lr_scheduler_type", "constant", "--profile", "zero3")
        coded, _, _ = self.make("in bf16", in_four_bits, {"is_quantised": True, "is_nested": True, "dtype": "bfloat16"}, BNB)
        losses = []
        for number, flags in enumerate(((), nested)):
            self.expect(self.train(coded, f"{coded} {number}", *bf16_flags, *flags, ranks=2), 0)
            losses.append(read_steps(f"{coded} {number}")[0]["loss"])
        self.assertEqual(*losses)
        # Going on from a checkpoint, whose base is read as before.
        self.expect(self.train(coded, f"{coded} 1", *bf16_flags, *nested, "--max_steps", "2", ranks=2), 0, "checkpoint-1")

    def test_what_is_refused(self):
        coded, _, codes = self.make("refused", gptq, {}, GPTQ)
        output = self.path("refused out")
        self.expect(self.train(coded, output, peft=[]), 78, "use_peft [default]", "codes of gptq", "give use_peft true")
        for quantization, says in (({"quant_method": "hqq"}, 'quant_method = "hqq": must have a quant_method that is read, one of bitsandbytes, gptq'),
                                   (GPTQ | {"bits": 3}, "quantization_config: bits = 3: 4 and 8 are read"),
                                   (AUTO_ROUND | {"packing_format": "auto_round"}, 'packing_format = "auto_round": must be auto_round:auto_gptq'),
                                   (GPTQ | {"checkpoint_format": "marlin"}, "checkpoint_format = marlin: must be gptq or gptq_v2"),
                                   (AWQ | {"version": "gemv"}, "version = gemv: must be gemm"),
                                   (COMPRESSED | {"format": "marlin-24"}, "format = marlin-24: must be one of nvfp4-pack-quantized, pack-q"),
                                   (COMPRESSED | {"format": "mixed-precision", "config_groups": {"g": {"format": None}}}, "mixed-precision of {"),
                                   (COMPRESSED | {"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparse-24-bitmask: must be dense"),
                                   (COMPRESSED | {"transform_config": {"config_groups": {"u": {}}}}, "rotations are not computed"),
                                   (BNB | {"load_in_4bit": False}, "load_in_4bit or load_in_8bit must be true")):
            self.change_config(coded, quantization)
            self.expect(self.train(coded, output), 78, says)
        self.change_config(coded, GPTQ | {"group_size": 16})
        self.expect(self.train(coded, output), 65, "scales are of 2 groups of inputs, and group_size in config.json makes 4")
        by_module = GPTQ | {"dynamic": {".*up_proj": {"bits": 3}}}
        for change, says in (({"qweight": ("I32", [6, 96], bytes(6 * 96 * 4))}, "a rule in config.json gives it 3 bits: 4 and 8 are read"),
                             ({"scales": ("F16", [3, 96], bytes(3 * 96 * 2)), "g_idx": None}, "without g_idx its 3 groups must be of one size")):
            self.change_config(coded, by_module)
            changed = codes | {f"model.layers.1.mlp.up_proj.{name}": tensor for name, tensor in change.items()}
            write_tensors(coded, {name: tensor for name, tensor in changed.items() if tensor})
            self.expect(self.train(coded, output), 65, "model.layers.1.mlp.up_proj.weight", says)
        self.change_config(coded, GPTQ)
        module = "model.layers.1.mlp.up_proj."
        for change, says in (({module + "g_idx": ("I32", [64], struct.pack("<64i", *[2] * 64))}, "g_idx names the group 2, and there are 2"),
                             ({module + "scales": ("F16", [2, 8], bytes(32))}, "are not those of [96, 64] in 4 bits"),
                             ({module + "bias": ("F16", [96], bytes(190) + b"\0\x3c")}, "bias is in the model's files with numbers other than 0"),
                             ({module + "qzeros": None}, f"{module}qzeros or {module}scales is not in the model's files")):
            write_tensors(coded, {name: tensor for name, tensor in (codes | change).items() if tensor})
            self.expect(self.train(coded, output), 65, module + "weight" if "g_idx" not in says and "bias" not in says else "up_proj", says)


if __name__ == "__main__":
    unittest.main()
