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
            // What has no effect is a comment.
            const bool stays = option.treatment == config::Treatment::served &&
                               first.settings.is_fixed(option.name);
            BOOST_TEST(stays == second.settings.is_fixed(option.name), option.name);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_deepspeed_file_is_printed_by_its_values) {
    const TemporaryFile file("ds.json", R"({"zero_optimization": {"stage": 1},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-4}}})");
    const Resolution first = resolve({"--deepspeed", file.path(), "--profile", "fsdp2"});
    const Resolution alone = resolve({"--deepspeed", file.path()});
    BOOST_TEST(!first.problems.empty());  // distributed_type is FSDP in one and not in the other
    BOOST_TEST(alone.problems.empty());
    const TemporaryFile printed("printed.yaml", config::print_yaml(alone.settings, table));
    const Resolution second = resolve({"--config", printed.path()});
    for (const Failure& failure : second.problems) BOOST_ERROR(failure.message);
    for (const config::Option& option : table.options())
        if (option.treatment == config::Treatment::served)
            BOOST_TEST(option.write(alone.settings.values) == option.write(second.settings.values),
                       option.name);
}

BOOST_AUTO_TEST_CASE(nothing_without_effect_is_printed_as_in_force) {
    const Resolution resolution = resolve({"--num_machines", "3", "--deepspeed",
                                           R"({"steps_per_print": 10, "optimizer": {"type": "AdamW",
                     "params": {"lr": 1e-4, "betas": [0.8, 0.95], "torch_adam": true}}})"});
    const std::string yaml = config::print_yaml(resolution.settings, table);
    BOOST_TEST(yaml.find("\nnum_machines") == std::string::npos);
    BOOST_TEST(yaml.find("# num_machines: 3") != std::string::npos);
    BOOST_TEST(yaml.find("command line: no effect, ranks, hosts") != std::string::npos);
    for (const auto* name : {"steps_per_print", "torch_adam", "betas"})
        BOOST_TEST(yaml.find(name) == std::string::npos, name);
    BOOST_TEST(yaml.find("adam_beta1: 0.8") != std::string::npos);
    const std::string json = config::print_json(resolution.settings, table);
    BOOST_TEST(json.find("\"has_effect\": false") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(settings_travel_between_ranks) {
    const Resolution first =
        resolve({"--profile", "zero3", "--packing", "--max_length", "null", "--padding_free",
                 "false", "--packing", "false", "--run_name", "a b"});
    const config::Settings second = config::Settings::from_text(first.settings.to_text(), table);
    BOOST_TEST(config::print_yaml(second, table) == config::print_yaml(first.settings, table));
    BOOST_TEST(config::print_json(second, table) == config::print_json(first.settings, table));
    // A weaker source named a policy; the other ranks do not take it either.
    const config::Settings mine =
        resolve({"--gradient_checkpointing", "false"}, {{"RINGSHARD_ACTIVATION_POLICY", "auto"}})
            .settings;
    const config::Settings theirs = config::Settings::from_text(mine.to_text(), table);
    BOOST_TEST(mine.values.training.activations_kept().keeps_everything());
    BOOST_TEST(
        (theirs.values.training.activations_kept() == mine.values.training.activations_kept()));
}

BOOST_AUTO_TEST_SUITE_END()
