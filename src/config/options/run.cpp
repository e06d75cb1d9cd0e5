#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_run_options(OptionTable& table) {
    OptionGroup group(table, "Run", &Config::run);
    group.serve("output_dir", &RunSettings::output_dir, "Folder for all files of a run.");
    group.block("config",
                "A YAML file of settings under the names of this list; or a recipe of axolotl, "
                "LLaMA-Factory, ms-swift, SimPO or NeMo Automodel.");
    group.block("from_shell", "A shell script with a command of ms-swift, whose flags are taken.");
    group.serve("run_name", &RunSettings::run_name,
                "Name of the run, for run.json and its reports.");
    group.serve("device", &RunSettings::device,
                "auto: GPUs if this machine has any, else the CPU.");
    group.serve("allow_shared_gpu", &RunSettings::allow_shared_gpu, "Let two ranks use one GPU.");
    group.serve("tf32", &RunSettings::tf32, "Let fp32 products on a GPU round to TF32.")
        .shapes_loss_if_set();
    group.serve("seed", &RunSettings::seed, "Seed of everything random.").shapes_loss().at_least(0);
    group.serve("data_seed", &RunSettings::data_seed, "Seed of the order of rows; null: seed.")
        .shapes_loss()
        .at_least(0);
    group.serve("full_determinism", &RunSettings::full_determinism,
                "Equal to the bit from run to run at one layout and thread count.");
    group.serve("cpu_gemm", &RunSettings::cpu_gemm,
                "Library of matrix products on the CPU: oneDNN, MKL, LibTorch's operators, or "
                "the program's own kernels (native); "
                "auto: the fastest of this build for each shape, as timed once for a processor.");
    group
        .serve("num_threads", &RunSettings::num_threads,
               "Threads per rank; null: OMP_NUM_THREADS, or the cores that this rank may use.")
        .at_least(1);

    group
        .serve("max_hours", &RunSettings::max_hours,
               "Save and stop before so many hours have passed since the start of this attempt; "
               "null: before the time limit of the SLURM job.")
        .above(0);
    group
        .serve(
            "hang_timeout_s", &RunSettings::hang_timeout_s,
            "Seconds without progress (a block of the model computed, a step done) after which a "
            "step, or a batch of an evaluation, counts as hanging, and the job ends with the names "
            "of the ranks that others wait for; null: ten times as long as the operations of the "
            "step took before, and ten minutes at least; 0: never.")
        .at_least(0);

    group.serve_json("env", &RunSettings::env,
                     "Variables of the environment as a mapping, as in TRL's files: for LibTorch, "
                     "NCCL, the HF cache and others that are read after the settings.");
    group.serve("dry_run", &RunSettings::dry_run,
                "Look through settings, data, model and plan, and end before anything is trained.");
    group.serve(
        "prove_in_job", &RunSettings::prove_in_job,
        "Compare the mesh of the job with one rank on a small model, as trainer prove does, "
        "before training begins; if it computes other numbers, the job ends with 76.");
    group.serve("measure", &RunSettings::measure,
                "doctor writes measured rates, for `trainer plan --gpu FILE`, into this file.");
    group.serve("ignore_plan", &RunSettings::ignore_plan,
                "Begin although a step will take more memory than there is.");
    group.alias("use_cpu", "device", Shape::boolean, {{"true", "cpu"}, {"false", ""}});
    group.alias("cpu", "device", Shape::boolean, {{"true", "cpu"}, {"false", ""}});
    group.older("no_cuda", "device", Shape::boolean, {{"true", "cpu"}, {"false", ""}});
    group.alias("num_cpu_threads_per_process", "num_threads", Shape::integer);
    group.accept("debug", Shape::word, "null", "errors name rank and host")
        .but_not({"underflow_overflow"}, "numbers that go bad always end a run with their place");
}

}  // namespace ringshard::config
