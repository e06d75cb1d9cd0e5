#include "resolving.hpp"

using namespace ringshard;
using namespace ringshard::test;

BOOST_AUTO_TEST_SUITE(sources)

BOOST_AUTO_TEST_CASE(the_stronger_source_wins) {
    const TemporaryFile file(
        "strength.yaml",
        "per_device_train_batch_size: 2\nseed: 2\nlearning_rate: 2.0\nprofile: zero1\n");
    const Resolution resolution =
        resolve({"--config", file.path(), "--learning_rate", "4.0"},
                {{"RINGSHARD_SEED", "3"}, {"RINGSHARD_LEARNING_RATE", "3"}});
    BOOST_TEST(resolution.problems.empty());
    const config::Settings& settings = resolution.settings;
    BOOST_TEST(settings.values.training.per_device_train_batch_size == 2);
    BOOST_TEST(settings.values.run.seed == 3);
    BOOST_TEST(settings.values.training.learning_rate == 4.0);
    BOOST_TEST(settings.values.parallel.zero_stage == 1);
    BOOST_TEST(settings.origin_of("per_device_train_batch_size").place == file.path() + ":1");
    BOOST_TEST(settings.origin_of("seed").place == "RINGSHARD_SEED");
    BOOST_TEST(settings.origin_of("learning_rate").place == "command line");
    BOOST_TEST(settings.origin_of("zero_stage").place.starts_with("profile zero1"));
    BOOST_TEST(settings.origin_of("max_steps").place == "default");
    BOOST_TEST(!settings.is_fixed("zero_stage"));
    BOOST_TEST(settings.is_fixed("seed"));
}

BOOST_AUTO_TEST_CASE(the_profile_has_three_names) {
    for (const auto* name : {"--profile", "--accelerate_config", "--config_file"})
        BOOST_TEST(values({name, "zero3"}).parallel.zero_stage == 3);
    BOOST_TEST(says(problem({"--profile", "zero2", "--accelerate_config", "zero3"}),
                    "contradict each other"));
    BOOST_TEST(
        says(problem({"--profile", "zero2", "--profile", "zero3"}), "contradict each other"));
    BOOST_TEST(resolve({"--profile", "zero2", "--config_file", "zero2"}).problems.empty());
    const TemporaryFile file("profile.yaml", "accelerate_config: zero2\n");
    BOOST_TEST(values({"--config", file.path(), "--profile", "zero3"}).parallel.zero_stage == 3);
    BOOST_TEST(says(problem({"--profile", "zero4"}), "did you mean zero"));
    BOOST_TEST(number(problem({"--profile", "no/such.yaml"}).code) == 66);
    const Resolution trl =
        resolve({"--config_file", "examples/accelerate_configs/deepspeed_zero2.yaml"});
    BOOST_TEST(trl.problems.empty());
    BOOST_TEST(has_note(trl, "the built-in profile zero2 is used"));
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_used) {
    BOOST_TEST(number(problem({"--config", "no/such/run.yaml"}).code) == 66);
    const TemporaryFile malformed("malformed.yaml", "seed: 1\n  learning_rate: [1, 2\n");
    BOOST_TEST(says(problem({"--config", malformed.path()}), "is not readable YAML"));
    const TemporaryFile list("list.yaml", "- seed\n- learning_rate\n");
    BOOST_TEST(says(problem({"--config", list.path()}), "must hold lines such as"));
    const TemporaryFile unknown("unknown.yaml", "seed: 1\nlearning_rte: 2\n");
    BOOST_TEST(says(problem({"--config", unknown.path()}), unknown.path() + ":2]"));
    const TemporaryFile empty("empty.yaml", "");
    BOOST_TEST(resolve({"--config", empty.path()}).problems.empty());
}

BOOST_AUTO_TEST_CASE(variables) {
    BOOST_TEST(values({}, {{"RINGSHARD_PACKING", "1"}}).data.packing);
    BOOST_TEST(says(problem({}, {{"RINGSHARD_PAKCING", "1"}}), "did you mean RINGSHARD_PACKING"));
    BOOST_TEST(resolve({}, {{"RINGSHARD_MPI", "pmix"},
                            {"RINGSHARD_FAULT", "x"},
                            {"RINGSHARD_TEST_COMM_DELAY_US", "5"},
                            {"RINGSHARD_ROOT", "/opt"},
                            {"RINGSHARD_TORCH_DIR", "/opt"}})
                   .problems.empty());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(deepspeed_files)

BOOST_AUTO_TEST_CASE(what_a_deepspeed_file_says) {
    const TemporaryFile file("ds.json", R"({
        "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": "auto",
                              "offload_optimizer": {"device": "cpu", "pin_memory": true}},
        "bf16": {"enabled": true}, "fp16": {"enabled": false}, "gradient_clipping": 0.5,
        "gradient_accumulation_steps": 4, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
        "steps_per_print": 10})");
    for (const auto* name : {"--deepspeed", "--deepspeed_config_file"}) {
        const config::Config read = values({name, file.path()});
        BOOST_TEST((read.parallel.distributed_type == config::DistributedType::deepspeed));
        BOOST_TEST(read.parallel.zero_stage == 2);
        BOOST_TEST((read.parallel.offload_optimizer_device == config::OffloadDevice::cpu));
        BOOST_TEST(read.training.max_grad_norm == 0.5);
        BOOST_TEST(read.training.gradient_accumulation_steps == 4);
        BOOST_TEST(read.training.per_device_train_batch_size == 8);
    }
    BOOST_TEST(
        values({"--deepspeed", file.path(), "--max_grad_norm", "2"}).training.max_grad_norm == 2);
}

BOOST_AUTO_TEST_CASE(what_a_deepspeed_file_may_not_say) {
    const TemporaryFile typo("typo.json", R"({"zero_optimization": {"stge": 2}})");
    BOOST_TEST(says(problem({"--deepspeed", typo.path()}), "zero_optimization.stge"));
    const TemporaryFile fp16("fp16.json", R"({"fp16": {"enabled": true}})");
    BOOST_TEST(says(problem({"--deepspeed", fp16.path()}), "use bf16"));
    const TemporaryFile broken("broken.json", "{");
    BOOST_TEST(says(problem({"--deepspeed", broken.path()}), "must be a mapping"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(printing)

BOOST_AUTO_TEST_CASE(what_is_printed_reads_back_as_the_same) {
    const TemporaryFile odd(
        "odd.yaml",
        "run_name: \"yes: #1\"\ndataset_name: null\nlr_scheduler_type: "
        "cosine_with_min_lr\nlr_scheduler_kwargs: {min_lr_rate: 0.1}\nmodel_name_or_path: '007'\n");
    for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
             {},
             {"--profile", "alst_ulysses_4gpu", "--cp_size", "2", "--learning_rate", "1e-4",
              "--packing"},
             {"--config", odd.path(), "--profile", "fsdp2", "--report_to", "tensorboard",
              "--max_length", "null"},
             {"--datasets", R"([{"path": "a.jsonl", "fraction": 0.5}])", "--eos_token",
              "<|im_end|>", "--num_machines", "3"}}) {
        const Resolution first = resolve(flags);
        BOOST_TEST(first.problems.empty());
        const TemporaryFile printed("printed.yaml", config::print_yaml(first.settings, table));
        const Resolution second = resolve({"--config", printed.path()});
        for (const Failure& failure : second.problems) BOOST_ERROR(failure.message);
        for (const config::Option& option : table.options()) {
            if (option.treatment == config::Treatment::served)
                BOOST_TEST(
                    option.write(first.settings.values) == option.write(second.settings.values),
                    option.name);
            BOOST_TEST(
                first.settings.is_fixed(option.name) == second.settings.is_fixed(option.name),
                option.name);
        }
    }
}

BOOST_AUTO_TEST_CASE(settings_travel_between_ranks) {
    const Resolution first =
        resolve({"--profile", "zero3", "--packing", "--max_length", "null", "--padding_free",
                 "false", "--packing", "false", "--run_name", "a b"});
    const config::Settings second = config::Settings::from_text(first.settings.to_text(), table);
    BOOST_TEST(config::print_yaml(second, table) == config::print_yaml(first.settings, table));
    BOOST_TEST(config::print_json(second, table) == config::print_json(first.settings, table));
}

BOOST_AUTO_TEST_SUITE_END()
