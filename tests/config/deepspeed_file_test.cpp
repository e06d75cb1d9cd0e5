// DeepSpeed files: fields that are served, have no effect or are refused. deepspeed_files.json has
// files that people publish.
#include "resolving.hpp"

using namespace ringshard;
using namespace ringshard::test;

namespace {

Resolution resolve_file(const std::string& json, std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--deepspeed", json});
    return resolve(flags);
}

config::Config values_of(const std::string& json, std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--deepspeed", json});
    return values(flags);
}

Failure problem_of(const std::string& json, std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--deepspeed", json});
    return problem(flags);
}

}  // namespace

// DeepSpeed refuses such a file too.
BOOST_AUTO_TEST_CASE(a_name_that_stands_twice) {
    const Failure failure =
        problem_of(R"({"zero_optimization": {"stage": 2, "stage": 3}, "gradient_clipping": 1})");
    BOOST_TEST(number(failure.code) == 78);
    BOOST_TEST(says(failure, "has \"stage\" twice"), failure.message);
}

BOOST_AUTO_TEST_CASE(what_a_file_says) {
    const TemporaryFile file("ds.json", R"({
        "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": "auto",
                              "offload_optimizer": {"device": "cpu", "pin_memory": true}},
        "bf16": {"enabled": true}, "fp16": {"enabled": false}, "gradient_clipping": 0.5,
        "gradient_accumulation_steps": 4, "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto", "steps_per_print": 10})");
    for (const auto* name : {"--deepspeed", "--deepspeed_config_file"}) {
        const config::Config read = values({name, file.path()});
        BOOST_TEST((read.parallel.distributed_type == config::DistributedType::deepspeed));
        BOOST_TEST(read.parallel.zero_stage == 2);
        BOOST_TEST((read.parallel.offload_optimizer_device == config::OffloadDevice::cpu));
        BOOST_TEST(read.training.max_grad_norm == 0.5);
        BOOST_TEST(read.training.gradient_accumulation_steps == 4);
        BOOST_TEST(read.training.per_device_train_batch_size == 8);
    }
    BOOST_TEST(values_of("{}").parallel.zero_stage == 0);
    BOOST_TEST(values_of(R"({"zero_optimization": true})").parallel.zero_stage == 1);
    BOOST_TEST(values_of(R"({"train_batch_size": 32})").training.train_batch_size.value() == 32);
    const TemporaryFile accelerate(
        "accelerate.yaml",
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: " + file.path());
    BOOST_TEST(values({"--profile", accelerate.path()}).training.max_grad_norm == 0.5);
}

BOOST_AUTO_TEST_CASE(optimizer_and_scheduler) {
    const std::string both = R"({"optimizer": {"type": "AdamW", "params": {"lr": "auto",
        "betas": [0.8, 0.95], "eps": 1e-7, "weight_decay": 0.02}}, "scheduler": {"type": "WarmupLR",
        "params": {"warmup_min_lr": 0, "warmup_max_lr": 3e-5, "warmup_num_steps": 500}}})";
    const config::TrainingSettings training = values_of(both).training;
    BOOST_TEST(training.learning_rate == 3e-5);
    BOOST_TEST(training.adam_beta1 == 0.8);
    BOOST_TEST(training.adam_beta2 == 0.95);
    BOOST_TEST(training.adam_epsilon == 1e-7);
    BOOST_TEST(training.weight_decay == 0.02);
    BOOST_TEST((training.lr_scheduler_type == config::Schedule::deepspeed_warmup));
    BOOST_TEST(training.warmup_steps == 500);
    BOOST_TEST(has_note(resolve_file(both), "decays biases and norms as well"));

    // What is left out has DeepSpeed's default, unless somebody says it.
    const std::string decay =
        R"({"optimizer": {"type": "Adam"}, "scheduler": {"type": "WarmupDecayLR",
            "params": {"total_num_steps": "auto"}}})";
    BOOST_TEST(values_of(decay).training.learning_rate == 0.001);
    BOOST_TEST(values_of(decay).training.warmup_steps == 1000);
    BOOST_TEST(values_of(decay, {"--learning_rate", "1e-4"}).training.learning_rate == 1e-4);
    BOOST_TEST(resolve_file(decay)
                   .settings.origin_of("warmup_steps")
                   .place.ends_with("DeepSpeed's default"));

    BOOST_TEST(says(problem_of(R"({"optimizer": {"type": "Lamb"}})"), "use type AdamW or Lion"));
    const std::string lion = R"({"optimizer": {"type": "Lion", "params": {"lr": 1e-4}}})";
    BOOST_TEST((values_of(lion).training.optim == config::Optimizer::lion));
    BOOST_TEST(values_of(lion).training.adam_beta2 == 0.99);
    BOOST_TEST(says(problem_of(lion, {"--optim", "adamw_torch"}), "optimizer.type"));
    const std::string with_epsilon =
        R"({"optimizer": {"type": "Lion", "params": {"lr": 1e-4, "eps": 1e-6}}})";
    BOOST_TEST(has_note(resolve_file(with_epsilon), "adam_epsilon: not used"));
    BOOST_TEST(!has_note(resolve_file(lion), "adam_epsilon: not used"));
    const std::string added =
        R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}})";
    BOOST_TEST(values_of(added).training.optim_args == "decoupled_weight_decay=False");
    BOOST_TEST(says(problem_of(R"({"optimizer": {"type": "AdamW", "params": {"betas": [0.9]}}})"),
                    "must be two numbers"));
    for (const auto* type : {"OneCycle", "LRRangeTest"})
        BOOST_TEST(says(problem_of(format_text(R"({{"scheduler": {{"type": "{}"}}}})", type)),
                        "use WarmupLR, WarmupDecayLR or WarmupCosineLR"));
    BOOST_TEST(says(problem_of(R"({"scheduler": {"type": "WarmupDecayLR", "params": {}}})"),
                    "DeepSpeed needs total_num_steps"));
    BOOST_TEST(says(problem_of(R"({"scheduler": {"type": "WarmupLR",
                                   "params": {"warmup_num_steps": 0}}})"),
                    "must be a whole number of steps above 0"));
    BOOST_TEST(says(problem_of(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup": 3}}})"),
                    "the schedule warmup_lr does not take warmup; it takes warmup_type"));
    BOOST_TEST(says(problem_of(R"({"scheduler": {"type": "WarmupDecayLR",
                                   "params": {"total_num_steps": 10}}})",
                               {"--max_steps", "20"}),
                    "total_num_steps = 10: must be max_steps = 20"));
}

// As transformers' Trainer does.
BOOST_AUTO_TEST_CASE(an_argument_may_not_contradict_a_file) {
    const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
        {R"({"gradient_clipping": 0.5})", {"--max_grad_norm", "2"}},
        {R"({"train_micro_batch_size_per_gpu": 4})", {"--per_device_train_batch_size", "2"}},
        {R"({"gradient_accumulation_steps": 4})", {"--gradient_accumulation_steps", "2"}},
        {R"({"bf16": {"enabled": true}})", {"--bf16", "false"}},
        {R"({"optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}})",
         {"--learning_rate", "1e-4"}},
        {R"({"optimizer": {"type": "AdamW", "params": {"betas": [0.8, 0.999]}}})",
         {"--adam_beta1", "0.9"}},
        {R"({"scheduler": {"type": "WarmupLR"}})", {"--lr_scheduler_type", "cosine"}},
        {R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 5}}})",
         {"--warmup_steps", "6"}}};
    for (const auto& [json, flags] : cases) {
        const Failure failure = problem_of(json, flags);
        BOOST_TEST(number(failure.code) == 78, json);
        BOOST_TEST(says(failure, "[command line] contradict each other"), json);
        BOOST_TEST(says(failure, "or write \"auto\" in the DeepSpeed file"), json);
    }
    BOOST_TEST(resolve_file(R"({"gradient_clipping": 0.5})", {"--max_grad_norm", "0.50"})
                   .problems.empty());
    BOOST_TEST(values_of(R"({"gradient_clipping": "auto"})", {"--max_grad_norm", "2"})
                   .training.max_grad_norm == 2);
    // What is cut is no matter of the result.
    BOOST_TEST(values_of(R"({"zero_optimization": {"stage": 3}})", {"--zero_stage", "1"})
                   .parallel.zero_stage == 1);
    BOOST_TEST(says(problem_of(R"({"optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
                                   "scheduler": {"type": "WarmupLR",
                                                 "params": {"warmup_max_lr": 1e-4}}})"),
                    "optimizer.params.lr = 0.001"));
}

BOOST_AUTO_TEST_CASE(what_is_switched_off_is_no_error) {
    for (const auto* block : {"fp16",
                              "bf16",
                              "bfloat16",
                              "amp",
                              "torch_autocast",
                              "flops_profiler",
                              "comms_logger",
                              "tensorboard",
                              "wandb",
                              "comet",
                              "csv_monitor",
                              "elasticity",
                              "autotuning",
                              "eigenvalue",
                              "expert_parallel",
                              "hybrid_engine",
                              "data_efficiency",
                              "curriculum_learning",
                              "compile",
                              "progressive_layer_drop",
                              "quantize_training",
                              "nebula",
                              "weight_quantization",
                              "compression_training",
                              "sparse_attention",
                              "pipeline",
                              "aio",
                              "checkpoint"}) {
        const Resolution resolution = resolve_file(
            format_text(R"({{"{}": {{"enabled": false, "opt_level": "O9"}}}})", block));
        for (const Failure& failure : resolution.problems) BOOST_ERROR(failure.message);
    }
    BOOST_TEST(resolve_file(R"({"compile": {"disable": true, "backend": "inductor"}, "amp": false,
        "sparse_gradients": false, "_comment": "x", "//": 1, "zero_optimization": {"stage": 3,
        "_why": 1, "zero_hpz_partition_size": 1, "zero_quantized_weights": false,
        "mics_shard_size": -1, "offload_param": null}, "tensor_parallel": {"autotp_size": 1},
        "data_types": {"grad_accum_dtype": "fp32"}, "bf16": {}, "monitor_config": {"enabled": true,
        "csv_monitor": {"enabled": false}}, "gradient_allreduce_op": "mean"})")
                   .problems.empty());
}

BOOST_AUTO_TEST_CASE(what_is_refused_is_named) {
    const std::vector<std::pair<std::string, std::string>> cases{
        {R"({"amp": {"enabled": true}})", "amp.enabled = true"},
        {R"({"tensorboard": {"enabled": true}})", "use report_to tensorboard"},
        {R"({"sparse_gradients": true})", "sparse_gradients = true"},
        {R"({"data_types": {"grad_accum_dtype": "bf16"}})", "accumulated in fp32"},
        {R"({"elasticity": {"enabled": true}})", "elasticity.enabled = true"},
        {R"({"checkpoint": {"load_universal": true}})", "DeepSpeed's checkpoints are not read"},
        {R"({"zero_optimization": {"zero_quantized_weights": true}})", "reduce_dtype bf16"},
        {R"({"zero_optimization": {"zero_hpz_partition_size": 8}})", "HYBRID_SHARD"},
        {R"({"zero_optimization": {"mics_shard_size": 8}})", "dp_shard_size"}};
    for (const auto& [json, words] : cases) {
        const Failure failure = problem_of(json);
        BOOST_TEST(number(failure.code) == 78, json);
        BOOST_TEST(says(failure, words), json);
        BOOST_TEST(says(failure, "is not served: "), json);
    }
}

// DeepSpeed's automatic splits are layouts, and its compiler changes no number.
BOOST_AUTO_TEST_CASE(what_is_taken_in_another_form) {
    BOOST_TEST((values_of(R"({"fp16": {"enabled": true}})").training.mixed_precision ==
                config::Precision::bf16));
    BOOST_TEST(has_note(resolve_file(R"({"tensor_parallel": {"autotp_size": 2}})"),
                        "tensor_parallel.autotp_size = 2"));
    BOOST_TEST(values_of(R"({"expert_parallel": {"enabled": true, "autoep_size": 4,
                             "preset_model": "mixtral"}})")
                   .parallel.ep_size == 4);
    const char* const compiled =
        R"({"compile": {"deepcompile": true, "passes": ["autosp"]}, "sequence_parallel_size": 2})";
    BOOST_TEST(values_of(compiled).parallel.sp_size.value() == 2);
    BOOST_TEST(has_note(resolve_file(compiled), "autosp is Ulysses"));
    BOOST_TEST(has_note(resolve_file(R"({"wandb": {"enabled": true}})"), "metrics.jsonl"));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_understood) {
    BOOST_TEST(
        says(problem_of(R"({"zero_optimization": {"stge": 2}})"), "zero_optimization.stge = 2"));
    BOOST_TEST(says(problem_of(R"({"zero_optimization": {"stge": 2}})"),
                    "did you mean zero_optimization.stage?"));
    BOOST_TEST(says(problem_of(R"({"zero_optimisation": {"stage": 2}})"),
                    "DeepSpeed has no setting of this name"));
    BOOST_TEST(says(problem_of(R"({"learning_rate": 1})"),
                    "learning_rate = 1"));  // ours, and not DeepSpeed's
    BOOST_TEST(says(problem_of(R"({"bf16": true})"), "must be a mapping"));
    BOOST_TEST(says(problem_of(R"({"zero_optimization": {"stage": 4}})"), "must be at most 3"));
    BOOST_TEST(says(problem_of(R"({"scheduler": {"params": {}}})"), "with type and params"));
    const TemporaryFile broken("broken.json", "{");
    BOOST_TEST(says(problem({"--deepspeed", broken.path()}), "must be a mapping"));
    BOOST_TEST(resolve_file(R"({"amp": {"enabled": true}, "optimizer": {"type": "SGD"},
                                "tensorboard": {"enabled": true}, "nonsense": 1})")
                   .problems.size() == 4U);
}
