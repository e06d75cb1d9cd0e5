"""Every kernel of our sources, and those of the libraries that a step uses, belong to a part of the time of a step."""

import json
import os
import pathlib
import re
import sys
import unittest

from planning import PlanTest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "bench" / "gpu"))
import parts  # noqa: E402
import shapes  # noqa: E402

DELTA_NET = {"model_type": "qwen3_next", "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 2, "num_attention_heads": 8,
             "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 2048, "num_experts": 0, "full_attention_interval": 2,
             "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
             "max_position_embeddings": 4096, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}}
# As profiles print them.
OF_LIBRARIES = {
    "nvjet_tst_320x128_64x3_2x1_v_badd_coopB_NNT": "products",
    "sm90_xmma_gemm_bf16f32_bf16f32_f32_nt_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas": "products",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x4_nt_align8>(Params)": "products",
    "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel::GemmUniversal<cute::tuple<": "products",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>(cublasLt::cublasSplitKParams<float>)": "products",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0": "attention, forward",
    "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1_kernel0_0": "attention, backward",
    "void cudnn::fusion::compute_dot_do_o_specialized<true, 128>(void const*)": "attention, backward",
    "void cudnn::fusion::convert_dq_to_16bits<true>(void const*)": "attention, backward",
    "void cudnn::fusion::fmha_reduce_head<true>(void const*)": "attention, backward",
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t": "attention, forward",
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::Flash_bwd_kernel_traits<64": "attention, backward",
    "void pytorch_flash::flash_bwd_dot_do_o_kernel<true, pytorch_flash::Flash_bwd_kernel_traits<64, 128": "attention, backward",
    "void pytorch_flash::flash_bwd_convert_dq_kernel<pytorch_flash::Flash_bwd_kernel_traits<64, 128": "attention, backward",
    "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>": "embedding",
    "void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::": "embedding",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<double, at::native::func_wrapper_t<double": "sums by LibTorch",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >": "clearing",
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)": "copies on the device",
    "Memcpy DtoD (Device -> Device)": "copies on the device",
    "Memset (Device)": "clearing",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "communication",
}
OF_OURS = {"Normalize": "norms, forward", "NormBackward": "norms, backward", "NormalizeHead": "norms of heads", "AddRows": "sums of gradients",
           "AddRowsOfToken": "embedding", "SumBlock": "sums of squares", "PutHeads": "gradients of heads", "LossOfToken": "loss",
           "RangeUpdate": "update of weights", "BlockUpdate": "update of weights", "ConvForward": "convolution, forward",
           "OfRows": "convolution, gradient of inputs", "QuantizeColumns": "rounding to FP8", "Dequantize": "weights from codes",
           "DequantizeRows": "weights from codes"}


def files_of_kernels():
    return [path for path in sorted((ROOT / "src").rglob("*")) if path.suffix in (".cu", ".cuh")]


def kernels_in(text):
    """The names of the __global__ functions."""
    for found in re.finditer(r"__global__([^{;]*)", text):
        declared = re.sub(r"__launch_bounds__\((?:[^()]|\([^()]*\))*\)", "", found.group(1))
        yield re.search(r"(\w+)\s*\(", declared).group(1)


def programs_in(text):
    """The types that a team of threads runs: of the one __global__ function an instance each."""
    for found in re.finditer(r"^struct (\w+) [^{;]*\{(.*?)^\};", text, re.MULTILINE | re.DOTALL):
        if "operator()(const Team& team)" in found.group(2):
            yield found.group(1)


class PartKernels(PlanTest):
    plans = []

    def setUp(self):
        if self.plans:
            return
        folder = os.path.join(self.folder.name, "delta-net")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(DELTA_NET, file)
        self.plans += [self.planned(["--model_name_or_path", model, "--profile", "single_gpu", "--max_length", "512", "--gpu", "h100-80",
                                     "--per_device_train_batch_size", "1", "--mixed_precision", precision], "--world", "1", "--parts")
                       for model, precision in ((self.model, "bf16"), (self.model, "fp8"), (folder, "bf16"))]

    def parts_of(self, kernel):
        """The parts that each plan has for it."""
        groups = [(plan, parts.group_of(kernel, parts.groups_of(plan))) for plan in self.plans]
        return [parts.name_of(group, plan) for plan, group in groups if group is not None]

    def test_every_kernel_of_our_sources_has_a_part(self):
        kernels, programs = set(), set()
        for path in files_of_kernels():
            kernels |= set(kernels_in(path.read_text()))
            programs |= set(programs_in(path.read_text()))
        self.assertIn("go_through", kernels)
        self.assertLessEqual(set(OF_OURS), programs)
        names = {f"void ringshard::ops::gpu::go_through<256, ringshard::ops::gpu::(anonymous namespace)::{program}<float, 4> >(float*)": program
                 for program in programs}
        names |= {f"void ringshard::ops::gpu::{kernel}<float>(float*)": kernel for kernel in kernels - {"go_through"}}
        for kernel, name in names.items():
            with self.subTest(name):
                found = self.parts_of(kernel)
                self.assertNotEqual(found, [], "src/plan/part_kernels.cpp has no word for it")
                self.assertEqual([part for part in found if OF_OURS.get(name, "") not in part], [])

    def test_every_run_of_a_team_is_found(self):
        """The sources that start kernels are those that the other test reads."""
        starts = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".cu", ".cuh", ".cpp", ".hpp") and
                  re.search(r"\brun<[^;]*>\(queue,|<<<", path.read_text())]
        self.assertGreater(len(starts), 10)
        for path in starts:
            self.assertIn(path, files_of_kernels())
            if path.name != "team.cuh":
                self.assertNotEqual(list(programs_in(path.read_text())), [], path)

    def test_kernels_of_libraries(self):
        for kernel, part in OF_LIBRARIES.items():
            with self.subTest(kernel):
                found = self.parts_of(kernel)
                self.assertEqual(len(found), len(self.plans))
                self.assertEqual([name for name in found if part not in name], [])

    def test_gpu_check_plans_each_row_whose_kernels_it_lists(self):
        for row in [row for row in shapes.ROWS if row["profile"]]:
            with self.subTest(row):
                folder = os.path.join(self.folder.name, row["model"])
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, "config.json"), "w") as file:
                    json.dump(shapes.MODELS[row["model"]], file)
                plan = self.planned(["--model_name_or_path", folder, *shapes.plan_flags(row), "--gpu", "h100-80"], "--parts")
                rows = parts.beside_plan(plan, {"seconds": 1, "kernels": [{"name": "gemm", "microseconds": 1e6}]})
                self.assertEqual([part["measured_ms"] for part in rows if part["part"].startswith("products")], [1000])
                self.assertAlmostEqual(sum(part["planned_ms"] for part in rows[:-2]), rows[-2]["planned_ms"], places=1)

    def test_no_part_that_a_gpu_computes_is_without_kernels(self):
        for plan in self.plans:
            without = {part["name"] for part in plan["step_parts"] if not part["kernels"]}
            self.assertLessEqual(without, {"row kernels"})  # of a host
        names = {part["name"] for plan in self.plans for part in plan["step_parts"]}
        self.assertLessEqual({"convolution, forward", "states, gradient of inputs", "rounding to FP8"}, names)


if __name__ == "__main__":
    unittest.main()
