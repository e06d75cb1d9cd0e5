#include "resolving.hpp"

using namespace ringshard;
using namespace ringshard::test;

BOOST_AUTO_TEST_SUITE(command_line)

BOOST_AUTO_TEST_CASE(every_way_to_write_a_flag) {
    BOOST_TEST(values({"--learning_rate", "1e-4"}).training.learning_rate == 1e-4);
    BOOST_TEST(values({"--learning_rate=1e-4"}).training.learning_rate == 1e-4);
    using config::RingStrategy;
    const auto strategy = [](const char* name) {
        return values({"--parallelism_config_cp_comm_strategy", name}).parallel.cp_comm_strategy;
    };
    BOOST_TEST((strategy("allgather") == RingStrategy::allgather));
    BOOST_TEST((strategy("alltoall") == RingStrategy::ring));  // Accelerate's word for it
    BOOST_TEST(values({"--learning-rate", "1e-4"}).training.learning_rate == 1e-4);
    BOOST_TEST(values({"--max_steps", "-1"}).training.max_steps == -1);
    BOOST_TEST(values({"--packing"}).data.packing);
    BOOST_TEST(values({"--packing", "--seed", "3"}).data.packing);
    BOOST_TEST(values({"--packing", "True"}).data.packing);
    BOOST_TEST(!values({"--packing", "no"}).data.packing);
    BOOST_TEST(!values({"--packing=false"}).data.packing);
    BOOST_TEST(!values({"--no_gradient_checkpointing"}).training.gradient_checkpointing);
    BOOST_TEST(values({"--completion_only_loss", "true"}).data.completion_only_loss.value());
    BOOST_TEST(!values({"--max_length", "null"}).data.max_length);
    BOOST_TEST(!values({"--max_length", "None"}).data.max_length);
    BOOST_TEST(values({"--report_to", "tensorboard"}).logging.report_to.front() == "tensorboard");
    BOOST_TEST(values({"--report_to", "none"}).logging.report_to.empty());
    const std::vector<std::string> two{"tensorboard", "none"};
    for (const auto* words : {"tensorboard none", "tensorboard,none", R"(["tensorboard", "none"])"})
        BOOST_TEST(values({"--report_to", words}).logging.report_to == two);
    BOOST_TEST(values({"--lr_scheduler_type", "cosine_with_min_lr", "--lr_scheduler_kwargs",
                       R"({"min_lr_rate": 0.1})"})
                   .training.lr_scheduler_kwargs == R"({"min_lr_rate":0.1})");
    const std::vector<int64_t> blocks{0, 2};
    for (const auto* words : {"0,2", "0 2", "[0, 2]", R"(["0", "2"])"})
        BOOST_TEST(
            values({"--use_peft", "--layers_to_transform", words}).adapter.layers_to_transform ==
            blocks);
    // The first of two patterns that match counts, so they stay in their order.
    BOOST_TEST(values({"--use_peft", "--rank_pattern", R"({"q_proj": 2, "a_proj": 3})"})
                   .adapter.rank_pattern == R"({"q_proj":2,"a_proj":3})");
}

BOOST_AUTO_TEST_CASE(the_last_of_a_repeated_flag_counts) {
    BOOST_TEST(values({"--seed", "1", "--seed", "2"}).run.seed == 2);
}

BOOST_AUTO_TEST_CASE(a_run_reads_one_file_of_settings) {
    const TemporaryFile first("first.yaml", "seed: 1\n");
    const TemporaryFile second("second.yaml", "seed: 2\n");
    BOOST_TEST(values({"--config", first.path(), "--config", first.path()}).run.seed == 1);
    for (const char* other : {"--config", "--from_shell"}) {
        const Failure failure = problem({"--config", first.path(), other, second.path()});
        BOOST_TEST(number(failure.code) == 78);
        BOOST_TEST(says(failure, second.path() +
                                     " [command line]: a run reads one file of "
                                     "settings, and config = " +
                                     first.path() + " names another: put both into one"));
    }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_understood) {
    BOOST_TEST(number(problem({"--seed"}).code) == 64);
    BOOST_TEST(number(problem({"train.py"}).code) == 64);
    BOOST_TEST(says(problem({"--seed", "3", "train.py"}), "train.py"));
    BOOST_TEST(number(problem({"--learning_rat", "3"}).code) == 78);
    BOOST_TEST(says(problem({"--learning_rat", "3"}),
                    "learning_rat = 3 [command line]: there is no setting of this name; did you "
                    "mean learning_rate?"));
    BOOST_TEST(
        says(problem({"--zero", "3"}), "there is no setting"));  // no guessing of abbreviations
}

BOOST_AUTO_TEST_CASE(every_problem_is_told_at_once) {
    BOOST_TEST(resolve({"--seed", "x", "--learning_rate", "fast", "--pack"}).problems.size() == 3U);
    // What is not served, what is out of range, and what settings say of each other.
    BOOST_TEST(resolve({"--optim_target_modules", "a", "--seed", "-1", "--padding_free", "--optim",
                        "ademamix", "--lr_scheduler_type", "greedy", "--hdf5_hint", "a"})
                   .problems.size() == 7U);
    // No second message on a setting whose value could not be read.
    BOOST_TEST(says(problem({"--load_best_model_at_end", "--eval_strategy", "often"}),
                    "eval_strategy = often"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(values_of_settings)

BOOST_AUTO_TEST_CASE(wrong_types_and_ranges) {
    BOOST_TEST(says(problem({"--learning_rate", "fast"}),
                    "learning_rate = fast [command line]: must be a number"));
    BOOST_TEST(says(problem({"--seed", "1.5"}), "must be a whole number"));
    BOOST_TEST(says(problem({"--per_device_train_batch_size", "0"}), "must be at least 1"));
    BOOST_TEST(says(problem({"--adam_beta1", "1.5"}), "must be below 1"));
    BOOST_TEST(says(problem({"--num_train_epochs", "0"}), "must be above 0"));
    BOOST_TEST(
        says(problem({"--packing_strategy", "best"}), "must be one of bfd, bfd_split or wrapped"));
    BOOST_TEST(says(problem({"--zero_stage", "4"}), "must be at most 3"));
    BOOST_TEST(number(problem({"--device", "tpu"}).code) == 78);
    BOOST_TEST(says(problem({"--gradient_accumulation_steps", "nan"}), "must be a whole number"));
    BOOST_TEST(says(problem({"--learning_rate", "nan"}), "must be a number"));
}

BOOST_AUTO_TEST_CASE(saving_and_moving_out_of_memory) {
    BOOST_TEST(says(problem({"--max_failed_saves", "0"}),
                    "max_failed_saves = 0 [command line]: must be at least 1"));
    BOOST_TEST(says(problem({"--save_total_limit", "0"}), "must be at least 1"));
    BOOST_TEST(says(problem({"--hdf5_io", "posix"}), "must be one of direct or mpio"));
    BOOST_TEST(says(problem({"--hdf5_io", "mpio", "--hdf5_hint", "striping"}),
                    "must be written as key=value"));
    BOOST_TEST(says(problem({"--hdf5_hint", "a=b"}), "give hdf5_io mpio, or leave them out"));
    BOOST_TEST(says(problem({"--verify_checkpoint", "hash"}), "must be one of sizes or full"));
    BOOST_TEST(says(problem({"--allow_changed=maybe"}), "allow_changed = maybe"));
    BOOST_TEST(says(problem({"--fsdp_state_dict_type", "LOCAL_STATE_DICT"}),
                    "it ties a checkpoint to the number of ranks"));
    BOOST_TEST(
        says(problem({"--offload_param_device", "disk"}), "must be one of none, cpu or nvme"));
    BOOST_TEST(says(problem({"--offload_optimizer_device", "nvme"}),
                    "offload_optimizer_nvme_path [default]: nvme needs the folder for the files"));
}

BOOST_AUTO_TEST_CASE(older_and_longer_names) {
    const Resolution resolution =
        resolve({"--max_seq_length", "4096", "--torch_dtype", "bfloat16", "--warmup_ratio", "0.1"});
    BOOST_TEST(resolution.problems.empty());
    BOOST_TEST(resolution.settings.values.data.max_length.value() == 4096);
    BOOST_TEST(resolution.settings.values.model.dtype == "bfloat16");
    BOOST_TEST(resolution.settings.values.training.warmup_steps == 0.1);
    BOOST_TEST(has_note(resolution, "max_seq_length is the older name of max_length"));
    BOOST_TEST((values({"--packing_strategy", "bfd-requeue"}).data.packing_strategy ==
                config::PackingStrategy::bfd_split));
    BOOST_TEST(
        (values({"--loss_type", "chunked_nll"}).training.loss_type == config::LossType::nll));
}

BOOST_AUTO_TEST_CASE(precision_is_one_setting) {
    using config::Precision;
    BOOST_TEST((values({}).training.mixed_precision == Precision::bf16));
    BOOST_TEST((values({"--bf16", "false"}).training.mixed_precision == Precision::fp32));
    BOOST_TEST((values({"--mixed_precision", "no"}).training.mixed_precision == Precision::fp32));
    BOOST_TEST((values({"--profile", "zero2", "--bf16", "false"}).training.mixed_precision ==
                Precision::fp32));
    BOOST_TEST((values({"--bf16"}).training.mixed_precision == Precision::bf16));
    BOOST_TEST(
        says(problem({"--bf16", "true", "--mixed_precision", "no"}), "contradict each other"));
    BOOST_TEST(resolve({"--fp16", "false"}).problems.empty());
}

BOOST_AUTO_TEST_CASE(checkpointing_the_stronger_word_counts) {
    using config::ActivationPolicy;
    const auto kept = [](const std::vector<std::string>& flags) {
        return values(flags).training.activations_kept();
    };
    BOOST_TEST((kept({}) == ActivationPolicy::attention));
    BOOST_TEST((kept({"--gradient_checkpointing", "false"}) == ActivationPolicy::all));
    BOOST_TEST((kept({"--profile", "fsdp2"}) == ActivationPolicy::all));  // the profile says false
    BOOST_TEST(
        (kept({"--profile", "fsdp2", "--gradient_checkpointing"}) == ActivationPolicy::attention));
    BOOST_TEST((kept({"--profile", "context_parallel_2gpu"}) == ActivationPolicy::attention));
    BOOST_TEST((kept({"--profile", "context_parallel_2gpu", "--gradient_checkpointing", "false"}) ==
                ActivationPolicy::all));
    BOOST_TEST((kept({"--activation_policy", "input"}) == ActivationPolicy::input));
    BOOST_TEST(
        (kept({"--activation_policy", "all_but_gate_up"}) == ActivationPolicy::all_but_gate_up));
    BOOST_TEST(
        (kept({"--profile", "fsdp2", "--activation_policy", "input"}) == ActivationPolicy::input));
    BOOST_TEST(says(problem({"--activation_policy", "all", "--gradient_checkpointing", "true"}),
                    "leave one out"));
    for (const auto* some : {"auto", "all:2,input"}) {
        BOOST_TEST(to_text(kept({"--activation_policy", some, "--gradient_checkpointing"})) ==
                   some);
        BOOST_TEST(says(problem({"--activation_policy", some, "--gradient_checkpointing", "false"}),
                        "leave one out"));
    }
    BOOST_TEST(says(
        problem({"--gradient_checkpointing", "true", "--fsdp_activation_checkpointing", "false"}),
        "contradict"));
}

BOOST_AUTO_TEST_CASE(blocks_keep_on_gpus_what_fits_unless_a_setting_says_otherwise) {
    using config::ActivationPolicy;
    const auto kept = [](const std::vector<std::string>& arguments) {
        const config::Settings settings = resolve(arguments).settings;
        return std::pair(settings.values.training.activations_kept(),
                         settings.on_gpus().values.training.activations_kept());
    };
    BOOST_TEST((kept({}).first == ActivationPolicy::attention));
    BOOST_TEST(kept({}).second.is_automatic());
    BOOST_TEST(kept({"--profile", "zero3"}).second.is_automatic());
    for (const std::vector<std::string>& said :
         {std::vector<std::string>{"--gradient_checkpointing", "true"},
          {"--gradient_checkpointing", "false"},
          {"--fsdp_activation_checkpointing", "true"},
          {"--activation_policy", "input"},
          {"--activation_offloading", "true"},
          {"--cuda_graphs", "true"}})
        BOOST_TEST((kept(said).first == kept(said).second));
}

BOOST_AUTO_TEST_CASE(a_policy_for_each_block) {
    using config::ActivationPolicy;
    const auto policies = [](const std::string& text) {
        return values({"--activation_policy", text}).training.activations_kept();
    };
    BOOST_TEST(policies("auto").is_automatic());
    BOOST_TEST(policies("AUTO").is_automatic());
    const auto mixed = policies("all:2, all_but_gate_up:1,attention");
    BOOST_TEST((mixed.of_blocks(5) == std::vector{ActivationPolicy::all, ActivationPolicy::all,
                                                  ActivationPolicy::all_but_gate_up,
                                                  ActivationPolicy::attention,
                                                  ActivationPolicy::attention}));
    BOOST_TEST(to_text(mixed) == "all:2,all_but_gate_up:1,attention");
    BOOST_TEST(describe(mixed, 4) ==
               "2 of 4 blocks keep all, 1 keeps all_but_gate_up, 1 keeps attention");
    BOOST_TEST(describe(mixed, 3) == "2 of 3 blocks keep all, 1 keeps all_but_gate_up");
    BOOST_TEST(describe(policies("input"), 24) == "24 of 24 blocks keep input");
    BOOST_TEST(mixed.why_not(3).empty());
    BOOST_TEST(mixed.why_not(2) == "names 3 blocks, and the model has 2");
    BOOST_TEST(policies("all:2,input:2").why_not(4).empty());
    BOOST_TEST(policies("all:2,input:2").why_not(5).ends_with("is that of all others"));
    BOOST_TEST(!mixed.keeps_everything());
    BOOST_TEST(policies("all:3,all").keeps_everything());
    for (const auto* wrong : {"most", "all:0,input", "all:-1,input", "all:x,input", "all,input",
                              "all:2:3,input", "all:2,", "all:2,auto", "auto:2", ","})
        BOOST_TEST(says(problem({"--activation_policy", wrong}), "as all:18,attention"));
    BOOST_TEST(says(problem({"--activation_policy", "auto", "--activation_offloading", "true"}),
                    "name a policy"));
    BOOST_TEST(
        says(problem({"--activation_policy", "auto", "--cuda_graphs", "true"}), "name a policy"));
    BOOST_TEST(resolve({"--activation_policy", "all:2,input", "--activation_offloading", "true"})
                   .problems.empty());
}

BOOST_AUTO_TEST_CASE(settings_that_contradict_each_other) {
    BOOST_TEST(says(problem({"--packing", "--max_length", "null"}), "packing needs max_length"));
    BOOST_TEST(says(problem({"--packing", "--max_length", "none"}), "a whole number above 0"));
    BOOST_TEST(says(problem({"--padding_free"}), "max_length null"));
    BOOST_TEST(
        says(problem({"--eval_packing", "--max_length", "null"}), "eval_packing needs max_length"));
    BOOST_TEST(
        says(problem({"--seed", "\x1b[31m" + std::string(100'000, 'x')}), "seed = \\x1b[31mxxx"));
    BOOST_TEST(problem({"--seed", std::string(100'000, 'x')}).message.size() < 1000U);
    BOOST_TEST(says(problem({"--output_dir", std::string("a\0b", 3)}), "holds a NUL character"));
    BOOST_TEST(resolve({"--padding_free", "--max_length", "null"}).problems.empty());
    BOOST_TEST(says(problem({"--load_best_model_at_end"}), "eval_strategy"));
    BOOST_TEST(says(problem({"--profile", "zero3", "--offload_param_device", "nvme"}),
                    "needs the folder"));
    BOOST_TEST(says(problem({"--profile", "zero2", "--offload_param_device", "cpu"}), "stage 3"));
    BOOST_TEST(says(problem({"--pad_to_multiple_of", "often"}), "whole number"));
}

BOOST_AUTO_TEST_CASE(known_elsewhere_and_not_served) {
    for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
             {"--optim_target_modules", "a"},
             {"--optim", "ademamix"},
             {"--megatron_lm_tp_degree", "2"},
             {"--fp8_config", R"({"opt_level": "O2"})"},
             {"--fp8_backend", "MSAMP"},
             {"--fp8_interval", "4"},
             {"--fp8_override_linear_precision", "true,false,true"},
             {"--lr_scheduler_type", "greedy"},
             {"--average_tokens_across_devices", "false"},
             {"--attn_implementation", "flex_attention"},
             {"--fsdp_state_dict_type", "LOCAL_STATE_DICT"}}) {
        const Failure failure = problem(flags);
        BOOST_TEST(number(failure.code) == 78, flags.front());
        BOOST_TEST(says(failure, "is not served: "), flags.front());
    }
    // A value that asks for nothing is fine.
    for (const std::vector<std::string>& flags :
         std::vector<std::vector<std::string>>{{"--use_dora", "false"},
                                               {"--tp_size", "1"},
                                               {"--torch_compile", "False"},
                                               {"--neftune_noise_alpha", "null"},
                                               {"--push_to_hub", "no"},
                                               {"--average_tokens_across_devices", "true"}})
        BOOST_TEST(resolve(flags).problems.empty(), flags.front());
}

BOOST_AUTO_TEST_CASE(words_of_axolotl_and_accelerate) {
    using namespace ringshard::config;
    const TemporaryFile automatic("auto.yaml", "bf16: auto\n");
    BOOST_TEST(
        (values({"--config", automatic.path()}).training.mixed_precision == Precision::bf16));
    const TemporaryFile unknown("perhaps.yaml", "bf16: perhaps\n");
    BOOST_TEST(says(problem({"--config", unknown.path()}), "must be true or false"));
    const TemporaryFile list("fsdp.yaml", "fsdp: [full_shard, auto_wrap]\n");
    BOOST_TEST((values({"--config", list.path()}).parallel.fsdp_sharding_strategy ==
                FsdpStrategy::full_shard));
    BOOST_TEST(resolve({"--fsdp", "[\"full_shard\", \"half\"]"}).problems.size() == 1U);
    // Accelerate's own defaults of Transformer Engine, as `accelerate config` writes them.
    const TemporaryFile te("te.yaml",
                           "mixed_precision: fp8\nfp8_config:\n  backend: TE\n"
                           "  use_autocast_during_eval: false\n"
                           "  override_linear_precision: (false, false, false)\n");
    const Resolution fp8 = resolve({"--profile", te.path()});
    BOOST_TEST(fp8.problems.empty());
    BOOST_TEST(has_note(fp8, "evaluation computes as training does"));
    // Accelerate does not read the DeepSpeed part of such a file.
    const TemporaryFile idle("no.yaml",
                             "distributed_type: 'NO'\ndeepspeed_config:\n"
                             "  deepspeed_config_file: path/to/be/ignored\n");
    const Resolution alone = resolve({"--profile", idle.path()});
    BOOST_TEST(alone.problems.empty());
    BOOST_TEST(has_note(alone, "deepspeed_config: not needed, distributed_type is NO"));
    const TemporaryFile used("yes.yaml",
                             "distributed_type: DEEPSPEED\ndeepspeed_config:\n"
                             "  deepspeed_config_file: path/not/there\n");
    BOOST_TEST(says(problem({"--profile", used.path()}), "there is no such file"));
}

BOOST_AUTO_TEST_CASE(several_evaluation_sets) {
    const std::string sets = R"({"easy": "a.jsonl", "hard.2": "b.jsonl"})";
    const std::vector<std::string> flags{"--eval_dataset_name", sets, "--eval_strategy", "steps"};
    const auto with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), flags.begin(), flags.end());
        return more;
    };
    BOOST_TEST(resolve(flags).problems.empty());
    const TemporaryFile file("sets.yaml",
                             "eval_dataset_name:\n  easy: a.jsonl\n  hard.2: b.jsonl\n");
    BOOST_TEST(values({"--config", file.path()}).data.eval_dataset_name ==
               R"({"easy":"a.jsonl","hard.2":"b.jsonl"})");
    BOOST_TEST(resolve(with({"--metric_for_best_model", "eval_hard.2_loss"})).problems.empty());
    BOOST_TEST(says(problem(with({"--metric_for_best_model", "loss"})), "easy_loss, hard.2_loss"));
    BOOST_TEST(says(
        problem(with({"--load_best_model_at_end", "--save_steps", "500", "--eval_steps", "500"})),
        "must be one of easy_loss"));
    for (const auto* wrong : {"{", R"({"a b": "x"})", R"({"a": 3})", "{}"})
        BOOST_TEST(says(problem({"--eval_dataset_name", wrong}), "eval_dataset_name"), wrong);
}

// Values that change memory, speed or where things go, and no result, are taken with a line.
BOOST_AUTO_TEST_CASE(values_in_whose_place_another_is_taken) {
    using config::Optimizer;
    const auto optimizer = [](const char* name) {
        return values({"--optim", name}).training.optim;
    };
    for (const auto* name : {"paged_adamw_32bit", "adamw_apex_fused"})
        BOOST_TEST((optimizer(name) == Optimizer::adamw), name);
    for (const auto* name :
         {"adamw_8bit", "adamw_bnb_8bit", "adamw_torch_4bit", "paged_adamw_8bit", "flash_adamw"})
        BOOST_TEST((optimizer(name) == Optimizer::adamw_8bit), name);
    BOOST_TEST((optimizer("paged_lion_8bit") == Optimizer::lion_8bit));
    BOOST_TEST(has_note(resolve({"--optim", "paged_adamw_32bit"}),
                        "optim = paged_adamw_32bit [command line]: it is AdamW, 8 bytes a "
                        "parameter"));
    BOOST_TEST((values({"--fp16"}).training.mixed_precision == config::Precision::bf16));
    BOOST_TEST((values({"--fp16", "--bf16", "false"}).training.mixed_precision ==
                config::Precision::bf16));
    BOOST_TEST(has_note(resolve({"--fp16"}), "needs no loss scaling"));
    BOOST_TEST(has_note(resolve({"--report_to", "comet_ml", "SwanLab"}), "metrics.jsonl"));
    BOOST_TEST(says(problem({"--report_to", "tensorbord"}),
                    "report_to = tensorbord [command line]: tensorbord is none of none, all, "
                    "tensorboard"));
    BOOST_TEST(says(problem({"--report_to", "tensorbord"}), "did you mean tensorboard?"));
    BOOST_TEST(number(problem({"--report_to", "wandb,my_own"}).code) == 78);
    BOOST_TEST(values({"--report_to", "comet_ml", "tensorboard"}).logging.report_to.size() == 1U);
    BOOST_TEST(has_note(resolve({"--logging_dir", "a"}), "logging_dir: not needed"));
    BOOST_TEST(!has_note(resolve({"--logging_dir", "a", "--report_to", "tensorboard"}),
                         "logging_dir: not needed"));
    BOOST_TEST(has_note(resolve({"--torch_compile"}), "there is no graph to compile"));
    BOOST_TEST(values({"--push_to_hub", "--hub_model_id", "ann/m"}).checkpoint.hub_model_id ==
               "ann/m");
    // With strict_launch they are refused, and what asks for nothing is not.
    for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
             {"--optim", "paged_adamw_32bit"}, {"--fp16"}, {"--tp_size", "2"}}) {
        std::vector<std::string> strict = flags;
        strict.insert(strict.end(), {"--strict_launch", "true"});
        BOOST_TEST(number(problem(strict).code) == 78, flags.front());
        BOOST_TEST(says(problem(strict), "strict_launch = true refuses it"), flags.front());
    }
    BOOST_TEST(
        resolve({"--tp_size", "1", "--fp16", "false", "--strict_launch", "true"}).problems.empty());
    // A weaker value that does not count gets no line.
    const TemporaryFile file("optim.yaml", "optim: paged_adamw_32bit\n");
    BOOST_TEST(!has_note(resolve({"--config", file.path(), "--optim", "adamw_torch"}), "8 bytes"));
}

// Arguments of an optimizer, and updates by names, are read when settings are.
BOOST_AUTO_TEST_CASE(arguments_of_optimizers_are_checked) {
    using Flags = std::vector<std::string>;
    for (const Flags& good :
         {Flags{"--optim", "sgd", "--optim_args", "momentum=0.9, nesterov=True"},
          Flags{"--optim", "muon", "--optim_args", "adjust_lr_fn=match_rms_adamw,ns_steps=4"},
          Flags{"--lr_groups", R"([{"pattern": "embed", "lr": 0.1, "optim": "sgd"}])"}})
        BOOST_TEST(resolve(good).problems.empty(), good.back());
    const auto refused = [](const Flags& flags, const char* words) {
        BOOST_TEST(number(problem(flags).code) == 78, flags.back());
        BOOST_TEST(says(problem(flags), words), problem(flags).message);
    };
    refused({"--optim_args", "momentum=0.9"}, "momentum: this optim has decoupled_weight_decay");
    refused({"--optim", "lion_32bit", "--optim_args", "momentum=0.9"},
            "momentum: this optim has no arguments");
    refused({"--optim", "sgd", "--optim_args", "ns_steps=3"}, "this optim has momentum");
    refused({"--optim", "sgd", "--optim_args", "momentum=1.5"}, "from 0 to below 1");
    refused({"--optim", "sgd", "--optim_args", "nesterov=True"}, "needs a momentum");
    refused({"--optim", "muon", "--optim_args", "adjust_lr_fn=other"}, "match_rms_adamw");
    refused({"--optim", "muon", "--optimizer_state_dtype", "bf16"}, "optimizer_state_dtype fp32");
    refused({"--lr_groups", R"([{"pattern": "a", "optim": "muon"}])", "--optimizer_state_dtype",
             "bf16"},
            "optimizer_state_dtype fp32");
    refused({"--lr_groups", R"([{"lr": 2}])"}, "\"pattern\" of names");
    refused({"--lr_groups", R"([{"pattern": "a", "rate": 2}])"}, "an entry has pattern, lr");
    refused({"--lr_groups", R"([{"pattern": "a"}])"}, "pattern \"a\": the entry sets nothing");
    BOOST_TEST(resolve({"--lr_groups", R"([{"pattern": "a", "lr": 1}])"}).problems.empty());
    refused({"--lr_groups", R"([{"pattern": "a", "optim": "galore"}])"}, "is not an optimizer");
    refused({"--lr_groups", R"([{"pattern": "a", "lr": 1, "lr": 2}])"}, "has \"lr\" twice");
    refused({"--optim", "sgd", "--optim_args", "momentum=0.9,momentum=0.5"}, "is given twice");
    const config::Resolution unused = resolve({"--optim", "sgd", "--adam_beta1", "0.5"});
    BOOST_TEST(has_note(unused, "adam_beta1: not used by optim = sgd"));
    BOOST_TEST(has_note(resolve({"--lr_scheduler_type", "constant", "--warmup_steps", "5"}),
                        "warmup_steps: not used"));
}

BOOST_AUTO_TEST_CASE(ranks_that_would_split_layers_shard) {
    using config::DistributedType;
    const config::Config plain = values({"--tp_size", "4"});
    BOOST_TEST((plain.parallel.distributed_type == DistributedType::fsdp));
    BOOST_TEST(!plain.parallel.dp_shard_size);
    const config::Config both =
        values({"--profile", "zero1", "--tp_size", "2", "--pp_size", "3", "--dp_shard_size", "4"});
    BOOST_TEST((both.parallel.distributed_type == DistributedType::deepspeed));
    BOOST_TEST(both.parallel.dp_shard_size.value() == 24);
    BOOST_TEST(has_note(resolve({"--tp_size", "4"}),
                        "tp_size = 4 [command line]: these ranks shard the model"));
    BOOST_TEST(says(problem({"--tp_size", "two"}), "must be a whole number"));
}

BOOST_AUTO_TEST_CASE(recipes_of_fp8) {
    using namespace ringshard::config;
    const auto training = [](std::vector<std::string> flags) {
        flags.insert(flags.end(), {"--mixed_precision", "fp8"});
        return values(flags).training;
    };
    BOOST_TEST((training({}).fp8_recipe == Fp8Recipe::rowwise));
    BOOST_TEST((training({"--fp8_backend", "AO"}).fp8_recipe == Fp8Recipe::rowwise));
    BOOST_TEST((training({"--fp8_backend", "AO", "--fp8_recipe", "tensorwise"}).fp8_recipe ==
                Fp8Recipe::tensorwise));
    const TrainingSettings te = training({"--fp8_backend", "te"});
    BOOST_TEST((te.fp8_recipe == Fp8Recipe::delayed && te.fp8_format == Fp8Format::hybrid));
    BOOST_TEST((te.fp8_amax_history_len == 1024 && te.fp8_margin == 0 &&
                te.fp8_amax_compute_algo == AmaxAlgorithm::most_recent));
    BOOST_TEST(
        (training({"--fp8_backend", "TE", "--fp8_format", "E4M3"}).fp8_format == Fp8Format::e4m3));
    const TrainingSettings block = training(
        {"--fp8_config", R"({"backend": "TE", "fp8_format": "HYBRID", "margin": 1, "interval": 1,
          "amax_history_length": 16, "amax_compute_algorithm": "max",
          "override_linear_precision": [false, false, false]})"});
    BOOST_TEST((block.fp8_recipe == Fp8Recipe::delayed && block.fp8_amax_history_len == 16 &&
                block.fp8_amax_compute_algo == AmaxAlgorithm::max && block.fp8_margin == 1));
    // The other ranks get what the backend stands for.
    const OptionTable table;
    const Settings sent = Settings::from_text(
        resolve({"--mixed_precision", "fp8", "--fp8_backend", "TE"}).settings.to_text(), table);
    BOOST_TEST((sent.values.training.fp8_recipe == Fp8Recipe::delayed));
    BOOST_TEST((sent.values.training.fp8_format == Fp8Format::hybrid));

    BOOST_TEST(says(problem({"--fp8_recipe", "delayed"}), "mixed_precision fp8 only"));
    for (const std::vector<std::string>& flags :
         std::vector<std::vector<std::string>>{{"--fp8_amax_history_len", "16"},
                                               {"--fp8_amax_compute_algo", "max"},
                                               {"--fp8_margin", "1"}})
        for (const char* const recipe : {"rowwise", "tensorwise"}) {
            std::vector<std::string> all{"--mixed_precision", "fp8", "--fp8_recipe", recipe};
            all.insert(all.end(), flags.begin(), flags.end());
            BOOST_TEST(says(problem(all), flags.front().substr(2)));
            BOOST_TEST(says(problem(all), "fp8_recipe delayed"));
        }
    BOOST_TEST(says(
        problem({"--mixed_precision", "fp8", "--fp8_backend", "TE", "--fp8_recipe", "rowwise"}),
        "te means fp8_recipe delayed"));
    BOOST_TEST(says(problem({"--mixed_precision", "fp8", "--fp8_recipe", "delayed",
                             "--fp8_amax_history_len", "0"}),
                    "at least 1"));
    BOOST_TEST(
        says(problem({"--mixed_precision", "fp8", "--fp8_recipe", "blockwise"}), "fp8_recipe"));
}

BOOST_AUTO_TEST_CASE(known_elsewhere_and_harmless) {
    const Resolution resolution =
        resolve({"--num_machines", "2", "--machine_rank", "1", "--main_process_ip", "10.0.0.1",
                 "--use_liger_kernel", "--attn_implementation", "flash_attention_2",
                 "--dataloader_num_workers", "4"});
    BOOST_TEST(resolution.problems.empty());
    BOOST_TEST(has_note(resolution,
                        "num_machines, machine_rank, main_process_ip: not needed, ranks, hosts and "
                        "addresses come from MPI"));
    BOOST_TEST(has_note(resolution, "use_liger_kernel: not needed"));
    BOOST_TEST(has_note(resolution, "attn_implementation: not needed"));
}

BOOST_AUTO_TEST_CASE(settings_inside_settings) {
    BOOST_TEST(
        (values(
             {"--fsdp_config",
              R"({"version": 2, "reshard_after_forward": false, "activation_checkpointing": true})",
              "--fsdp"})
             .parallel.fsdp_reshard_after_forward == false));
    BOOST_TEST((values({"--fsdp", "shard_grad_op auto_wrap"}).parallel.fsdp_sharding_strategy ==
                config::FsdpStrategy::shard_grad_op));
    BOOST_TEST(says(problem({"--fsdp", "half_shard"}), "half_shard"));
    BOOST_TEST(
        resolve({"--model_init_kwargs", R"({"attn_implementation": "sdpa", "dtype": "bfloat16"})"})
            .problems.empty());
    BOOST_TEST(says(problem({"--fsdp_config", "{broken"}), "must be a mapping"));
    BOOST_TEST(number(problem({"--fsdp_config", "no/such/file.json"}).code) == 66);
    BOOST_TEST(
        says(problem({"--accelerator_config", R"({"split_batches": true})"}), "is not served"));
    BOOST_TEST(
        values({"--gradient_checkpointing_kwargs", R"({"use_reentrant": false, "offload": true})"})
            .training.activation_offloading);
}

BOOST_AUTO_TEST_SUITE_END()
