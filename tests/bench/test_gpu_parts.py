"""A breakdown by kernel beside the parts of a plan: sums, kernels that no part knows, and parts that were not measured."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "gpu"))
import parts  # noqa: E402
import shapes  # noqa: E402

PRODUCTS = ["gemm", "nvjet", "splitKreduce"]
PLAN = {
    "step_seconds": {"products": 0.03, "rows": 0.012, "attention": 0.005, "total": 0.047},
    "step_parts": [
        {"name": "qkv, forward", "sum": "products", "seconds": 0.01, "hidden_seconds": 0, "kernels": PRODUCTS},
        {"name": "down, gradient of inputs", "sum": "products", "seconds": 0.02, "hidden_seconds": 0, "kernels": PRODUCTS},
        {"name": "attention, forward", "sum": "attention", "seconds": 0.002, "hidden_seconds": 0, "kernels": ["flash_fwd"]},
        {"name": "attention, again", "sum": "attention", "seconds": 0.002, "hidden_seconds": 0, "kernels": ["flash_fwd"]},
        {"name": "attention, backward", "sum": "attention", "seconds": 0.001, "hidden_seconds": 0, "kernels": ["flash_bwd"]},
        {"name": "norms, forward", "sum": "rows", "seconds": 0.008, "hidden_seconds": 0, "kernels": ["::Normalize"]},
        {"name": "residuals, read by products", "sum": "rows", "seconds": 0.004, "hidden_seconds": 0, "kernels": PRODUCTS},
        {"name": "copies of offloaded state", "sum": "exposed_communication", "seconds": 0.0, "hidden_seconds": 0.006,
         "kernels": ["Memcpy HtoD", "Memcpy DtoH"]}],
    "uncounted_kernels": [
        {"name": "norms of heads", "kernels": ["::NormalizeHead"]},
        {"name": "numbers to the host and back", "kernels": ["Memcpy HtoD", "Memcpy DtoH"]},
        {"name": "embedding", "kernels": ["indexSelect"]}]}
OURS = "void ringshard::ops::gpu::go_through<256, ringshard::ops::gpu::(anonymous namespace)::"


def measured(*kernels):
    return {"seconds": 0.06, "kernels": [{"name": name, "count": 1, "microseconds": microseconds} for name, microseconds in kernels]}


def rows_of(*kernels):
    return {row["part"]: row for row in parts.beside_plan(PLAN, measured(*kernels))}


class Parts(unittest.TestCase):
    def test_kernels_are_summed_by_part(self):
        rows = rows_of(("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTT", 30000.0), ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", 3400.0),
                       ("void cublasLt::splitKreduce_kernel<32, 16, int, float>", 600.0),
                       ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, cutlass::bfloat16_t", 5000.0),
                       (OURS + "Normalize<c10::BFloat16, 8> >", 8000.0), (OURS + "NormalizeHead<c10::BFloat16, 8> >", 250.0),
                       ("Memcpy DtoH (Device -> Pinned)", 5000.0), ("Memcpy HtoD (Pinned -> Device)", 4000.0))
        # Products cannot be told apart, and what they read beside their factors is in them.
        products = rows["products + residuals, read by products"]
        self.assertEqual((products["planned_ms"], products["measured_ms"], products["ratio"]), (34.0, 34.0, 1.0))
        self.assertEqual(products["kernels"], ["nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTT", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n",
                                               "void cublasLt::splitKreduce_kernel<32, 16, int, float>"])
        forward = rows["attention, forward + attention, again"]
        self.assertEqual((forward["planned_ms"], forward["measured_ms"], forward["ratio"]), (4.0, 5.0, 1.25))
        # The longest word decides, and of equal ones that of a part which the plan counts.
        self.assertEqual(rows["norms, forward"]["ratio"], 1.0)
        self.assertEqual(rows["norms of heads"]["measured_ms"], 0.25)
        self.assertIsNone(rows["norms of heads"]["planned_ms"])
        self.assertIsNone(rows["norms of heads"]["ratio"])
        self.assertEqual((rows["copies of offloaded state"]["planned_ms"], rows["copies of offloaded state"]["ratio"]), (6.0, 1.5))
        self.assertNotIn("numbers to the host and back", rows)
        self.assertNotIn("embedding", rows)
        self.assertNotIn("kernels without a part", rows)
        self.assertEqual((rows["all kernels"]["planned_ms"], rows["all kernels"]["measured_ms"]), (53.0, 56.25))
        self.assertEqual((rows["the whole step"]["planned_ms"], rows["the whole step"]["measured_ms"]), (47.0, 60.0))

    def test_kernels_that_no_part_knows_have_a_row(self):
        rows = rows_of(("void somebody::elses<float>", 100.0), ("gemm", 1000.0), ("void at::native::tanh_kernel<float>", 300.0))
        unknown = rows["kernels without a part"]
        self.assertEqual((unknown["planned_ms"], unknown["measured_ms"], unknown["ratio"]), (None, 0.4, None))
        self.assertEqual(unknown["kernels"], ["void at::native::tanh_kernel<float>", "void somebody::elses<float>"])
        self.assertEqual(rows["all kernels"]["measured_ms"], 1.4)
        text = "\n".join(parts.as_table(list(rows.values())))
        self.assertIn("\n    void somebody::elses<float>\n", text)
        self.assertNotIn("    gemm", text)

    def test_a_part_without_a_kernel_has_a_row(self):
        rows = rows_of(("gemm", 34000.0))
        backward = rows["attention, backward"]
        self.assertEqual((backward["planned_ms"], backward["measured_ms"], backward["ratio"]), (1.0, 0, 0.0))
        self.assertEqual(backward["kernels"], [])
        line = next(line for line in parts.as_table(list(rows.values())) if line.startswith("attention, backward"))
        self.assertEqual(line.split()[-3:], ["1.0", "0.0", "0.00"])

    def test_every_kernel_is_in_one_row(self):
        names = ["gemm", "flash_fwd", "flash_bwd", OURS + "Normalize", OURS + "NormalizeHead", "Memset (Device)", "ncclDevKernel"]
        rows = rows_of(*[(name, 1000.0) for name in names])
        found = [kernel for row in rows.values() for kernel in row.get("kernels", [])]
        self.assertEqual(sorted(found), sorted(names))
        self.assertAlmostEqual(sum(row["measured_ms"] for row in rows.values() if "kernels" in row), rows["all kernels"]["measured_ms"])


class FlagsOfRows(unittest.TestCase):
    def test_gpus_by_the_names_of_the_plan(self):
        def planned(name, mebibytes):
            return shapes.planned_gpu([{"name": name, "memory.total": f"{mebibytes} MiB"}])

        self.assertEqual(planned("NVIDIA H100 80GB HBM3", 81559), "h100-80")
        self.assertEqual(planned("NVIDIA H200", 143771), "h200-141")
        self.assertEqual(planned("NVIDIA A100-SXM4-80GB", 81920), "a100-80")
        self.assertEqual(planned("NVIDIA A100-PCIE-40GB", 40960), "a100-40")
        self.assertIsNone(planned("NVIDIA L4", 23034))
        self.assertIsNone(shapes.planned_gpu([]))


if __name__ == "__main__":
    unittest.main()
