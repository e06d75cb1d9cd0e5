#include "recipes.hpp"

using namespace ringshard;
using namespace ringshard::test;

BOOST_AUTO_TEST_SUITE(llama_factory)

BOOST_AUTO_TEST_CASE(a_recipe_and_its_defaults) {
    const TemporaryFile info("dataset_info.json", R"({
        "one": {"file_name": "one.json"},
        "two": {"hf_hub_url": "org/two", "formatting": "sharegpt", "subset": "en"}})");
    const auto folder = std::filesystem::path(info.path()).parent_path() / "ringshard_info";
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(info.path(), folder / "dataset_info.json",
                               std::filesystem::copy_options::overwrite_existing);
    const std::string recipe = format_text(R"(model_name_or_path: org/m
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 16
lora_target: all
dataset: one,two
dataset_dir: {}
template: qwen
cutoff_len: 1024
max_samples: 1000
overwrite_cache: true
bf16: true
plot_loss: true
val_size: 0.1
neftune_noise_alpha: 5
)",
                                           folder.string());
    const config::Config config = of_recipe("lf.yaml", recipe);
    BOOST_TEST(config.adapter.lora_r == 16);
    BOOST_TEST(config.adapter.lora_alpha == 32);  // twice the rank
    BOOST_TEST(config.adapter.lora_target_modules.front() == "all-linear");
    BOOST_TEST(config.training.learning_rate == 5e-5);
    BOOST_TEST(config.training.neftune_noise_alpha.value_or(0) == 5);
    BOOST_TEST(config.data.max_length.value() == 1024);
    BOOST_TEST(config.data.test_split_size.value() == 0.1);
    BOOST_TEST(config.data.datasets.find("train[:1000]") != std::string::npos);
    BOOST_TEST(config.data.datasets.find(R"("name":"en")") != std::string::npos);
    BOOST_TEST(config.data.roles_to_train.front() == "assistant");
    BOOST_TEST(refuses("lf.yaml", recipe + "use_galore: true\n", "use_galore = true"));
    const config::Config muon = of_recipe("lf.yaml", recipe + "use_muon: true\n");
    BOOST_TEST((muon.training.optim == config::Optimizer::muon));
    BOOST_TEST(muon.training.optim_args == "adjust_lr_fn=match_rms_adamw");
    BOOST_TEST(refuses("lf.yaml", "model_name_or_path: m\nstage: ppo\n", "stage = ppo"));
    BOOST_TEST(refuses(
        "lf.yaml",
        "model_name_or_path: m\nstage: sft\ndataset: three\ndataset_dir: " + folder.string() + "\n",
        "three: dataset_info.json has no such entry"));
    std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(pairs_of_answers) {
    const TemporaryFile info("dataset_info.json", R"({
        "texts": {"file_name": "texts.json", "ranking": true, "columns": {"rejected": "worse"}},
        "turns": {"file_name": "turns.json", "ranking": true, "formatting": "sharegpt"},
        "plain": {"file_name": "plain.json"}})");
    const auto folder = std::filesystem::path(info.path()).parent_path() / "ringshard_pairs";
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(info.path(), folder / "dataset_info.json",
                               std::filesystem::copy_options::overwrite_existing);
    const auto recipe = [&](const std::string& dataset, const std::string& more) {
        return format_text(
            "model_name_or_path: m\nstage: dpo\nfinetuning_type: lora\ndataset_dir: {}\n"
            "dataset: {}\ntemplate: qwen\n{}",
            folder.string(), dataset, more);
    };
    const config::Config config =
        of_recipe("lf.yaml", recipe("texts,turns", "pref_beta: 0.2\npref_loss: ipo\n"));
    BOOST_TEST((config.training.method == config::Method::dpo));
    BOOST_TEST((config.training.loss_type == config::LossType::ipo));
    BOOST_TEST(config.training.beta == 0.2);
    BOOST_TEST(config.training.learning_rate == 5e-5);
    BOOST_TEST(config.data.roles_to_train.empty());
    BOOST_TEST(config.data.datasets.find("{{ worse | tojson }}") != std::string::npos);
    BOOST_TEST(config.data.datasets.find("else chosen['value'])") != std::string::npos);
    BOOST_TEST((of_recipe("lf.yaml", recipe("turns", "")).training.beta == 0.1));
    BOOST_TEST(refuses("lf.yaml", recipe("plain", ""), "plain: the entry is no ranking"));
    const config::TrainingSettings simpo =
        of_recipe("lf.yaml", recipe("turns", "pref_loss: simpo\nsimpo_gamma: 0.7\n")).training;
    BOOST_TEST((simpo.method == config::Method::cpo));
    BOOST_TEST((simpo.loss_type == config::LossType::simpo));
    BOOST_TEST(simpo.simpo_gamma == 0.7);
    BOOST_TEST(simpo.cpo_alpha == 0);
    const config::Config odds = of_recipe("lf.yaml", recipe("turns", "pref_loss: orpo\n"));
    BOOST_TEST(odds.training.compares_odds());
    BOOST_TEST(odds.training.likelihood_per_answer);
    BOOST_TEST(odds.data.completion_only_loss.value());
    const config::TrainingSettings likely =
        of_recipe("lf.yaml", recipe("turns", "pref_ftx: 0.1\n")).training;
    BOOST_TEST(likely.rpo_alpha.value() == 0.1);
    BOOST_TEST(likely.likelihood_per_answer);
    BOOST_TEST(
        refuses("lf.yaml", recipe("turns", "pref_loss: orpo\npref_ftx: 0.1\n"), "pref_ftx = 0.1"));
    BOOST_TEST(
        refuses("lf.yaml", recipe("turns", "pref_loss: kto_pair\n"), "pref_loss = kto_pair"));
    BOOST_TEST(refuses(
        "lf.yaml",
        "model_name_or_path: m\nstage: sft\ndataset: turns\ndataset_dir: " + folder.string() + "\n",
        "the rows are pairs, of stages dpo and rm"));
    const config::Resolution rewards = resolution_of(
        "lf.yaml", format_text("model_name_or_path: m\nstage: rm\ndataset: texts,turns\n"
                               "dataset_dir: {}\ntemplate: qwen\npref_beta: 0.2\n",
                               folder.string()));
    BOOST_TEST(rewards.problems.empty());
    BOOST_TEST((rewards.settings.values.training.method == config::Method::reward));
    BOOST_TEST(
        (rewards.settings.values.data.truncation_mode == config::TruncationMode::keep_start));
    BOOST_TEST(rewards.settings.values.data.datasets.find("{{ worse | tojson }}") !=
               std::string::npos);
    BOOST_TEST(has_note(rewards, "the head is score of ForSequenceClassification"));
    BOOST_TEST(has_note(rewards, "pref_beta: not needed"));
    std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(what_leaves_no_row_or_contradicts_is_refused) {
    const TemporaryFile info("dataset_info.json", R"({
        "plain": {"file_name": "plain.json"}, "few": {"file_name": "n.json", "num_samples": 0},
        "list": ["n.json"], "number": {"file_name": "n.json", "split": 3}})");
    const auto folder = std::filesystem::path(info.path()).parent_path() / "ringshard_rows";
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(info.path(), folder / "dataset_info.json",
                               std::filesystem::copy_options::overwrite_existing);
    const auto recipe = [&](const std::string& dataset, const std::string& more) {
        return format_text(
            "model_name_or_path: m\nstage: sft\nfinetuning_type: full\ndataset_dir: {}\n"
            "dataset: {}\ntemplate: qwen\n{}",
            folder.string(), dataset, more);
    };
    BOOST_TEST(refuses("lf.yaml", recipe("plain", "max_samples: 0\n"), "no row is left"));
    BOOST_TEST(refuses("lf.yaml", recipe("plain", "max_samples: -1\n"), "no row is left"));
    BOOST_TEST(
        of_recipe("lf.yaml", recipe("plain", "max_samples: 1\n")).data.datasets.find("train[:1]") !=
        std::string::npos);
    BOOST_TEST(refuses("lf.yaml", recipe("few", ""), "and no row is left"));
    BOOST_TEST(
        refuses("lf.yaml", recipe("list", ""), "list: the entry of dataset_info.json is no"));
    BOOST_TEST(refuses("lf.yaml", recipe("number", ""), "a value of a form that LLaMA-Factory"));
    BOOST_TEST(refuses("lf.yaml", recipe("plain", "val_size: 0.5\neval_dataset: plain\n"),
                       "LLaMA-Factory refuses it beside eval_dataset"));
    BOOST_TEST(refuses("lf.yaml", recipe("plain", "bf16: true\nfp16: true\n"),
                       "LLaMA-Factory refuses it beside bf16"));
    BOOST_TEST(refuses("lf.yaml", recipe("plain", "cutoff_len: 64\ncutoff_len: 128\n"),
                       "the file has the key twice"));
    std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(single_answers) {
    const TemporaryFile info("dataset_info.json", R"({
        "texts": {"file_name": "texts.json", "columns": {"kto_tag": "good"}},
        "turns": {"file_name": "turns.json", "formatting": "sharegpt",
                  "columns": {"messages": "said", "kto_tag": "label"}},
        "plain": {"file_name": "plain.json"}})");
    const auto folder = std::filesystem::path(info.path()).parent_path() / "ringshard_answers";
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(info.path(), folder / "dataset_info.json",
                               std::filesystem::copy_options::overwrite_existing);
    const auto recipe = [&](const std::string& dataset, const std::string& more) {
        return format_text("model_name_or_path: m\nstage: kto\ndataset_dir: {}\ndataset: {}\n{}",
                           folder.string(), dataset, more);
    };
    const config::Config config =
        of_recipe("lf.yaml", recipe("texts,turns", "pref_beta: 0.2\nkto_rejected_weight: 0.3\n"));
    BOOST_TEST(config.training.has_baseline());
    BOOST_TEST(config.training.beta == 0.2);
    BOOST_TEST(config.training.undesirable_weight == 0.3);
    BOOST_TEST(config.data.roles_to_train.empty());
    BOOST_TEST(config.data.datasets.find("{{ good | tojson }}") != std::string::npos);
    BOOST_TEST(config.data.datasets.find("{{ said[-1]['value'] | tojson }}") != std::string::npos);
    BOOST_TEST(refuses("lf.yaml", recipe("plain", ""), "plain: the entry names no kto_tag"));
    BOOST_TEST(refuses("lf.yaml", recipe("turns", "kto_ftx: 0.1\n"), "kto_ftx = 0.1"));
    std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(its_command_line) {
    const TemporaryFile recipe("lf.yaml",
                               "model_name_or_path: m\nstage: sft\nfinetuning_type: lora\n"
                               "fp8: true\nbf16: true\npacking: true\n");
    const std::string command = "USE_X=1 accelerate launch --config_file fsdp1 src/train.py " +
                                recipe.path() + " learning_rate=3e-5\n";
    const config::Config config = of_recipe("train.sh", command);
    BOOST_TEST(config.training.learning_rate == 3e-5);
    BOOST_TEST((config.training.mixed_precision == config::Precision::fp8));
    BOOST_TEST((config.parallel.distributed_type == config::DistributedType::fsdp));
    BOOST_TEST(has_note(resolution_of("train.sh", command), "launcher: not needed"));
}

BOOST_AUTO_TEST_CASE(version_1) {
    const TemporaryFile sets("sets.yaml",
                             "one:\n  path: a.json\n  source: local\n"
                             "  converter: alpaca\n  size: 50\n");
    const std::string recipe = "model: m\nmodel_class: llm\ntrain_dataset: " + sets.path() +
                               "\npeft_config:\n  name: lora\n  r: 4\n  target_modules: all\n"
                               "dist_config:\n  name: fsdp2\n  ep_dispatcher: eager\n"
                               "cutoff_len: 512\nmax_steps: 10\n";
    const config::Config config = of_recipe("v1.yaml", recipe);
    BOOST_TEST(config.adapter.lora_r == 4);
    BOOST_TEST(config.adapter.lora_alpha == 16);
    BOOST_TEST(config.training.weight_decay == 0.01);  // PyTorch's
    BOOST_TEST((config.training.lr_scheduler_type == config::Schedule::constant));
    BOOST_TEST(config.data.datasets.find("train[:50]") != std::string::npos);
    BOOST_TEST(has_note(resolution_of("v1.yaml", recipe), "dist_config.ep_dispatcher: not needed"));
    BOOST_TEST(refuses("v1.yaml", recipe + "optim_config:\n  name: muon\n", "AdamW is served"));
}

BOOST_AUTO_TEST_CASE(tools_and_a_ring) {
    const std::string start = "model_name_or_path: m\nstage: sft\ntemplate: qwen3\n";
    BOOST_TEST(has_note(resolution_of("p.yaml", start + "tool_format: qwen\n"),
                        "tool_format: not needed"));
    BOOST_TEST(refuses("p.yaml", start + "tool_format: glm4\n", "tool_format = glm4"));
    BOOST_TEST(of_recipe("p.yaml", start + "context_parallel_size: 2\n").parallel.cp_size.value() ==
               2);
}

BOOST_AUTO_TEST_CASE(an_evaluation_at_the_end) {
    const std::string start = "model_name_or_path: m\nstage: sft\ndo_predict: true\n";
    BOOST_TEST(of_recipe("p.yaml", start + "do_train: true\n").evaluation.do_predict);
    BOOST_TEST(refuses("p.yaml", start, "the file trains nothing"));
}

BOOST_AUTO_TEST_CASE(one_adapter_goes_on) {
    const std::string head =
        "model_name_or_path: m\nstage: sft\nfinetuning_type: lora\ntemplate: default\n";
    BOOST_TEST(refuses("a.yaml", head + "adapter_name_or_path: a,b\n", "one adapter goes on"));
    BOOST_TEST(refuses("a.yaml", head + "adapter_name_or_path: a,b\ndataset: d\n", "a,b"));
}

BOOST_AUTO_TEST_SUITE_END()
