"""Devices for `trainer plan --gpu` that are written down: without one it measures this host, which takes four seconds."""

import os

from trainer import HF_HOME

RATES = ("products", "products_backward", "attention", "attention_backward", "attention_extra_keys",
         "attention_backward_extra_keys", "peak", "row_bytes")
OTHERS = ("loss_logits", "optimizer_bytes", "host_copy_bytes", "scratch_bytes", "link_bytes", "network_bytes", "save_bytes",
          "host_memory_bytes", "scratch_room_bytes")


def write_device(path, **numbers):
    """A file for --gpu: a terabyte of everything, 1e12 operations and 1e10 bytes a second, but for these."""
    all_numbers = {f"{kind}_{rate}": "1e12" for kind in ("bf16", "fp32") for rate in RATES}
    all_numbers |= {name: "1e12" if name.endswith(("memory_bytes", "room_bytes")) else "1e10" for name in OTHERS}
    all_numbers |= {name: "1" for name in all_numbers if name.endswith("extra_keys")}
    all_numbers |= {"memory_bytes": "1e12"} | numbers
    with open(path, "w") as file:
        file.write("name: made\n" + "".join(f"{name}: {number}\n" for name, number in all_numbers.items()))
    return path


HOST = write_device(os.path.join(HF_HOME.name, "host"), is_host="true")
