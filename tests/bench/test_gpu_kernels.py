"""bench_gpu_kernels on the processor: it has a row for each operation of a step."""

import json
import os
import subprocess
import unittest


class GpuKernels(unittest.TestCase):
    def test_every_operation_has_a_row(self):
        environment = dict(os.environ, RINGSHARD_TEST_DEVICE="cpu", OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        result = subprocess.run([os.environ["BENCH_GPU_KERNELS"], "small"], capture_output=True, text=True, env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        measured = {(row["table"], row["what"]) for row in rows}
        for table, operations in {
            "products": ["forward", "forward, with an addend", "input gradient", "weight gradient", "weight gradient, written"],
            "rows": ["rms_norm", "rms_norm_backward", "rms_norm_backward, which writes the rows again", "add_rms_norm", "head_norm",
                     "head_norm_backward", "swiglu", "swiglu_backward", "rope", "merge_attention", "embedding_backward",
                     "cross_entropy", "sum_of_squares", "cast", "adamw", "adamw, moments in bf16"],
            "states": ["causal_conv", "causal_conv_backward", "delta_rule", "delta_rule_backward"],
            "attention": ["forward", "backward"],
        }.items():
            for operation in operations:
                self.assertIn((table, operation), measured)
        self.assertTrue(all(row["microseconds"] > 0 for row in rows))


if __name__ == "__main__":
    unittest.main()
