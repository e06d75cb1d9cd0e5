#include "resolving.hpp"

using namespace ringshard;
using namespace ringshard::test;

namespace {

config::Config of_recipe(const std::string& name, const std::string& text,
                         std::vector<std::string> flags = {}) {
    const TemporaryFile file(name, text);
    const bool is_script = name.ends_with(".sh");
    flags.insert(flags.begin(), {is_script ? "--from_shell" : "--config", file.path()});
    return values(flags);
}

Resolution resolution_of(const std::string& name, const std::string& text) {
    const TemporaryFile file(name, text);
    return resolve({name.ends_with(".sh") ? "--from_shell" : "--config", file.path()});
}

std::string origin_of(const Resolution& resolution, const std::string& setting) {
    return resolution.settings.origin_of(setting).place;
}

bool refuses(const std::string& name, const std::string& text, const std::string& words) {
    const Resolution resolution = resolution_of(name, text);
    for (const Failure& failure : resolution.problems)
        if (failure.message.find(words) != std::string::npos) return true;
    for (const Failure& failure : resolution.problems) BOOST_TEST_MESSAGE(failure.message);
    return false;
}

const std::string axolotl_lora = R"(base_model: org/base
model_type: LlamaForCausalLM
load_in_8bit: false
load_in_4bit: true
datasets:
  - path: org/alpaca
    type: alpaca
val_set_size: 0.05
output_dir: ./out
sequence_len: 4096
sample_packing: true
adapter: qlora
lora_r: 32
lora_alpha: 16
lora_target_linear: true
wandb_project:
gradient_accumulation_steps: 4
micro_batch_size: 2
num_epochs: 4
optimizer: paged_adamw_32bit
lr_scheduler: cosine
learning_rate: 0.0002
bf16: auto
tf32: false
gradient_checkpointing: true
logging_steps: 1
flash_attention: true
warmup_ratio: 0.1
evals_per_epoch: 4
saves_per_epoch: 1
weight_decay: 0.0
fsdp:
  - full_shard
  - auto_wrap
fsdp_config:
  fsdp_state_dict_type: FULL_STATE_DICT
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
special_tokens:
  pad_token: "<|end|>"
)";

}  // namespace

BOOST_AUTO_TEST_SUITE(axolotl)

BOOST_AUTO_TEST_CASE(a_recipe_with_adapters) {
    const config::Config config = of_recipe("axolotl.yaml", axolotl_lora);
    BOOST_TEST(config.model.model_name_or_path == "org/base");
    BOOST_TEST(config.data.max_length.value() == 4096);
    BOOST_TEST(config.data.packing);
    BOOST_TEST((config.data.truncation_mode == config::TruncationMode::drop));
    BOOST_TEST(config.data.test_split_size.value() == 0.05);
    BOOST_TEST(config.adapter.use_peft);
    BOOST_TEST(config.quantization.load_in_4bit);
    BOOST_TEST(config.quantization.use_bnb_nested_quant);  // axolotl's default
    BOOST_TEST(config.adapter.lora_r == 32);
    BOOST_TEST(config.adapter.lora_dropout == 0);
    BOOST_TEST(config.adapter.lora_target_modules.front() == "all-linear");
    BOOST_TEST(config.training.num_train_epochs == 4);
    BOOST_TEST(config.training.per_device_train_batch_size == 2);
    BOOST_TEST(config.evaluation.eval_steps.value() == 1.0 / 16);
    BOOST_TEST((config.checkpoint.save_strategy == config::SaveStrategy::steps));
    BOOST_TEST(config.checkpoint.save_steps == 0.25);
    BOOST_TEST(!config.evaluation.load_best_model_at_end);
    BOOST_TEST((config.parallel.distributed_type == config::DistributedType::fsdp));
    BOOST_TEST(config.data.datasets.find("### Instruction") != std::string::npos);
    BOOST_TEST(config.data.datasets.find(R"("special_tokens":true)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(each_value_names_its_key) {
    const Resolution resolution = resolution_of("axolotl.yaml", axolotl_lora);
    BOOST_TEST(origin_of(resolution, "max_length").ends_with("axolotl.yaml:10, sequence_len"));
    BOOST_TEST(origin_of(resolution, "optim").ends_with(":20, optimizer"));
    BOOST_TEST(origin_of(resolution, "truncation_mode") == "axolotl's default");
    BOOST_TEST(has_note(resolution, "read as a file of axolotl"));
    BOOST_TEST(has_note(resolution, "flash_attention: not needed, the built-in exact attention"));
}

BOOST_AUTO_TEST_CASE(a_flag_and_the_value_of_a_key_may_differ) {
    BOOST_TEST(
        of_recipe("axolotl.yaml", axolotl_lora, {"--max_length", "64"}).data.max_length.value() ==
        64);
}

BOOST_AUTO_TEST_CASE(noise_of_embeddings) {
    const config::Config config =
        of_recipe("axolotl.yaml", axolotl_lora + "neftune_noise_alpha: 5\n");
    BOOST_TEST(config.training.neftune_noise_alpha.value_or(0) == 5);
    BOOST_TEST(!of_recipe("axolotl.yaml", axolotl_lora + "neftune_noise_alpha:\n")
                    .training.neftune_noise_alpha);
}

BOOST_AUTO_TEST_CASE(conversations) {
    const std::string recipe = R"(base_model: b
learning_rate: 1e-5
chat_template: chatml
datasets:
  - path: org/chats
    type: chat_template
    split: train[:10%]
    field_messages: conversations
    message_property_mappings:
      role: from
      content: value
)";
    const config::Config config = of_recipe("chats.yaml", recipe);
    BOOST_TEST(config.data.roles_to_train.front() == "assistant");
    BOOST_TEST(config.data.datasets.find(R"("column_map":{"messages":"conversations"})") !=
               std::string::npos);
    BOOST_TEST(config.data.datasets.find(R"("role_key":"from")") != std::string::npos);
    BOOST_TEST(config.model.chat_template.find("<|im_start|>") != std::string::npos);
    BOOST_TEST(!config.adapter.use_peft);
    BOOST_TEST((config.training.mixed_precision == config::Precision::bf16));  // axolotl's auto
}

BOOST_AUTO_TEST_CASE(schedules_and_events) {
    const std::string start = "base_model: b\nlearning_rate: 1e-4\nsequence_len: 200_000\n";
    const config::Config lowest = of_recipe(
        "low.yaml", start + "cosine_min_lr_ratio: 0.2\nbatch_size: 8\nmicro_batch_size: 2\n");
    BOOST_TEST(lowest.data.max_length.value() == 200000);
    BOOST_TEST((lowest.training.lr_scheduler_type == config::Schedule::cosine_with_min_lr));
    BOOST_TEST(lowest.training.lr_scheduler_kwargs == R"({"min_lr_rate":0.2})");
    BOOST_TEST(lowest.training.gradient_accumulation_steps == 4);  // batch_size is of one rank
    BOOST_TEST(lowest.training.warmup_steps == 0.03);
    const config::Config stops =
        of_recipe("stops.yaml", start +
                                    "val_set_size: 0.1\neval_steps: 10\nsave_steps: 25\n"
                                    "early_stopping_patience: 3\nfp16: true\nwarmup_steps: 1\n");
    BOOST_TEST(stops.evaluation.early_stopping_patience.value() == 3);
    BOOST_TEST(stops.evaluation.metric_for_best_model == "loss");
    BOOST_TEST(!stops.evaluation.load_best_model_at_end);  // 25 is no multiple of 10
    BOOST_TEST(stops.evaluation.eval_on_start);
    BOOST_TEST(stops.training.warmup_steps == 2);
}

BOOST_AUTO_TEST_CASE(a_base_with_experts_is_held_in_four_bits) {
    const std::string recipe =
        "base_model: b\nlearning_rate: 1e-4\nadapter: qlora\nlora_r: 8\nlora_alpha: 16\n"
        "lora_target_linear: true\nquantize_moe_experts: true\n";
    BOOST_TEST(of_recipe("experts.yaml", recipe).quantization.load_in_4bit);
    BOOST_TEST(of_recipe("experts.yaml", recipe).quantization.use_bnb_nested_quant);
    BOOST_TEST(has_note(resolution_of("experts.yaml", recipe), "experts in four bits too"));
}

BOOST_AUTO_TEST_CASE(bases_in_eight_bits) {
    const auto is_in_eight = [](const std::string& name, const std::string& recipe) {
        const config::QuantizationSettings& base = of_recipe(name, recipe).quantization;
        return base.load_in_8bit && !base.load_in_4bit;
    };
    const std::string axolotl =
        "base_model: org/base\ndatasets:\n  - path: org/a\n    type: alpaca\nload_in_8bit: true\n";
    BOOST_TEST(is_in_eight("lora.yaml", axolotl + "adapter: lora\n"));
    BOOST_TEST(refuses("full.yaml", axolotl, "a base in eight bits has adapters"));
    BOOST_TEST(refuses("qlora.yaml", axolotl + "adapter: qlora\n", "held in one of the two"));
    // The file of data is not there, which is another matter.
    const config::Settings factory =
        resolution_of("factory.yaml",
                      "model_name_or_path: org/base\nstage: sft\ndo_train: true\n"
                      "finetuning_type: lora\ndataset: alpaca_en_demo\ntemplate: default\n"
                      "quantization_bit: 8\ndouble_quantization: true\n")
            .settings;
    BOOST_TEST(factory.values.quantization.load_in_8bit);
    BOOST_TEST(!factory.is_fixed("use_bnb_nested_quant"));
    BOOST_TEST(is_in_eight("sft.sh",
                           "swift sft --model m --dataset d --train_type lora --quant_bits 8 "
                           "--bnb_4bit_use_double_quant true\n"));
}

BOOST_AUTO_TEST_CASE(no_key_is_silent) {
    const Resolution resolution =
        resolution_of("keys.yaml",
                      "base_model: b\nlearning_rate: 1e-4\nfp16: false\nbf16: true\neta_min: 1e-5\n"
                      "rl: false\n");
    BOOST_TEST(has_note(resolution, "rl: not needed"));
    BOOST_TEST(has_note(resolution, "fp16: not needed"));
    BOOST_TEST(has_note(resolution, "eta_min: not needed, axolotl itself reads no such key"));
}

BOOST_AUTO_TEST_CASE(answers_of_axolotl) {
    const auto recipe = [](const std::string& type, const std::string& more) {
        return format_text(
            "base_model: b\nrl: kto\nrl_beta: 0.2\nlearning_rate: 1e-5\ndatasets:\n  - path: p\n"
            "    type: {}\n{}",
            type, more);
    };
    const config::Config config =
        of_recipe("a.yaml", recipe("llama3.intel", "kto_undesirable_weight: 0.3\n"));
    BOOST_TEST(config.training.has_baseline());
    BOOST_TEST(config.training.beta == 0.2);
    BOOST_TEST(config.training.undesirable_weight == 0.3);
    BOOST_TEST(config.data.shuffle_dataset);
    BOOST_TEST(config.data.datasets.find("~ question ~ '<|eot_id|>'") != std::string::npos);
    BOOST_TEST(refuses("a.yaml", recipe("llama3.other", ""), "the type llama3.other"));
    BOOST_TEST(refuses("a.yaml", recipe("alpaca", ""), "the type alpaca"));
    BOOST_TEST(has_note(resolution_of("a.yaml", "base_model: b\nkto_desirable_weight: 2\n"),
                        "kto_desirable_weight: not needed"));
}

BOOST_AUTO_TEST_CASE(what_is_refused_or_unknown_is_named) {
    const std::string start = "base_model: b\nlearning_rate: 1e-5\n";
    const std::string nested =
        "adapter: qlora\nbnb_config_kwargs:\n  bnb_4bit_use_double_quant: false\n";
    BOOST_TEST(!of_recipe("a.yaml", start + nested).quantization.use_bnb_nested_quant);
    BOOST_TEST(of_recipe("a.yaml", start + "min_sample_len: 200_000\n").data.min_length == 200'000);
    BOOST_TEST(of_recipe("a.yaml", start + "dataset_exact_deduplication: true\n")
                   .data.dataset_exact_deduplication);
    const std::string quadratic = start + "lr_quadratic_warmup: true\n";
    BOOST_TEST(of_recipe("a.yaml", quadratic).training.lr_scheduler_kwargs ==
               R"({"warmup_type":"quadratic"})");
    BOOST_TEST(has_note(resolution_of("a.yaml", quadratic + "lr_scheduler: linear\n"),
                        "lr_quadratic_warmup: not needed"));
    BOOST_TEST(has_note(resolution_of("a.yaml", start + "eval_table_size: 2\n"),
                        "eval_table_size: not needed"));
    BOOST_TEST(refuses("a.yaml", start + "rl: grpo\n", "rl = grpo"));
    BOOST_TEST(refuses("a.yaml", start + "gptq: true\n", "GPTQ"));
    BOOST_TEST(refuses("a.yaml", start + "plugins:\n  - my.Plugin\n", "my.Plugin"));
    BOOST_TEST(refuses("a.yaml", start + "sequence_length: 4\n", "did you mean sequence_len?"));
    BOOST_TEST(
        refuses("a.yaml", start + "datasets:\n  - path: p\n    type: oasst\n", "the type oasst"));
    BOOST_TEST(refuses("a.yaml", start + "micro_batch_size: many\n", "micro_batch_size = many"));
    BOOST_TEST(resolution_of("a.yaml", start + "rl:\ngptq: false\nsomething_new: false\n")
                   .problems.empty());
}

BOOST_AUTO_TEST_CASE(pairs_of_answers) {
    const auto recipe = [](const std::string& type, const std::string& more) {
        return "base_model: org/base\nsequence_len: 512\nrl: dpo\n" + more +
               "datasets:\n  - path: org/pairs\n    type: " + type +
               "\n    field_messages: turns\n    field_chosen: better\n    roles:\n"
               "      user: [person]\n      assistant: [model]\n";
    };
    const config::Config config =
        of_recipe("a.yaml", recipe("chat_template.default", "rl_beta: 0.3\n"));
    BOOST_TEST((config.training.method == config::Method::dpo));
    BOOST_TEST((config.training.loss_type == config::LossType::sigmoid));
    BOOST_TEST(config.training.beta == 0.3);
    BOOST_TEST(config.data.roles_to_train.empty());
    BOOST_TEST(config.data.datasets.find("for turn in turns") != std::string::npos);
    BOOST_TEST(config.data.datasets.find("better if better is string") != std::string::npos);
    BOOST_TEST(refuses("a.yaml", recipe("chatml.intel", ""), "the type chatml.intel"));
    const std::string start = "base_model: org/base\nsequence_len: 512\ndatasets:\n";
    const std::string conversations = "  - path: org/pairs\n    type: chat_template.argilla\n";
    const config::Config orpo =
        of_recipe("a.yaml", start + conversations + "rl: orpo\norpo_alpha: 0.2\n");
    BOOST_TEST(orpo.training.compares_odds());
    BOOST_TEST(orpo.training.beta == 0.2);
    BOOST_TEST(!orpo.data.completion_only_loss.value_or(false));
    BOOST_TEST(orpo.data.datasets.find("row_template") == std::string::npos);
    const config::Config chats = of_recipe(
        "a.yaml", start + "  - path: org/pairs\n    type: chat_template.argilla_chat\nrl: dpo\n");
    BOOST_TEST(chats.data.datasets.find("row_template") == std::string::npos);
    const config::Config named =
        of_recipe("a.yaml", start + conversations + "    field_chosen: better\nrl: orpo\n");
    BOOST_TEST(named.data.datasets.find(R"("column_map":{"chosen":"better"})") !=
               std::string::npos);
    BOOST_TEST(refuses("a.yaml", start + conversations + "    roles: {user: [x]}\nrl: orpo\n",
                       "the key roles of two conversations"));
    BOOST_TEST(refuses("a.yaml",
                       start + "  - path: org/pairs\n    type: chat_template.default\nrl: orpo\n",
                       "use chat_template.argilla"));
    BOOST_TEST(refuses("a.yaml", recipe("chat_template", "dpo_use_weighting: true\n"),
                       "dpo_use_weighting = true"));
}

BOOST_AUTO_TEST_CASE(rewards) {
    const std::string start =
        "base_model: org/base\nmodel_type: AutoModelForSequenceClassification\nnum_labels: 1\n"
        "reward_model: true\ncenter_rewards_coefficient: 0.01\nsequence_len: 512\n";
    const auto data = [](const std::string& type) {
        return "datasets:\n  - path: org/pairs\n    type: bradley_terry." + type + "\n";
    };
    const config::Config config = of_recipe("a.yaml", start + data("chat_template"));
    BOOST_TEST((config.training.method == config::Method::reward));
    BOOST_TEST(config.training.center_rewards_coefficient.value() == 0.01);
    BOOST_TEST((config.data.truncation_mode == config::TruncationMode::drop));
    BOOST_TEST(config.data.datasets.find("input | tojson") != std::string::npos);
    BOOST_TEST(refuses("a.yaml", start + data("llama3"), "the type bradley_terry.llama3"));
    BOOST_TEST(refuses("a.yaml", start + "num_labels: 2\n", "a reward model has one"));
}

BOOST_AUTO_TEST_SUITE_END()

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

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(ms_swift)

BOOST_AUTO_TEST_CASE(pairs_of_answers) {
    const std::string command = "swift rlhf --model m --dataset d --learning_rate 1e-6 ";
    const config::Config config =
        of_recipe("dpo.sh", command + "--rlhf_type dpo --beta 0.2 --loss_type hinge\n");
    BOOST_TEST((config.training.method == config::Method::dpo));
    BOOST_TEST((config.training.loss_type == config::LossType::hinge));
    BOOST_TEST(config.training.beta == 0.2);
    BOOST_TEST(config.data.roles_to_train.empty());
    BOOST_TEST(config.data.row_template.find("rejected_response") != std::string::npos);
    BOOST_TEST(refuses("ppo.sh", command + "--rlhf_type ppo\n", "rlhf_type = ppo"));
    BOOST_TEST(
        refuses("rlhf.sh", command + "\n", "give rlhf_type dpo, cpo, simpo, orpo, kto or rm"));
    BOOST_TEST(of_recipe("rpo.sh", command + "--rlhf_type dpo --rpo_alpha 0.1\n")
                   .training.rpo_alpha.value() == 0.1);
    BOOST_TEST(refuses("sft.sh", "swift sft --model m --dataset d --loss_type infonce\n",
                       "loss_type has nll and dft"));
}

BOOST_AUTO_TEST_CASE(single_answers) {
    const config::Config config =
        of_recipe("kto.sh",
                  "swift rlhf --rlhf_type kto --model m --dataset d --beta 0.2 "
                  "--desirable_weight 0.5\n");
    BOOST_TEST(config.training.has_baseline());
    BOOST_TEST(config.training.beta == 0.2);
    BOOST_TEST(config.training.desirable_weight == 0.5);
    BOOST_TEST(config.data.shuffle_dataset);
    BOOST_TEST((config.data.train_sampling_strategy == config::SamplingStrategy::sequential));
    BOOST_TEST(config.data.row_template.find("{{ label | tojson }}") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(pairs_without_a_reference) {
    const std::string command = "swift rlhf --model m --dataset d --rlhf_type ";
    const config::TrainingSettings simpo = of_recipe("simpo.sh", command + "simpo\n").training;
    BOOST_TEST((simpo.method == config::Method::cpo));
    BOOST_TEST((simpo.loss_type == config::LossType::simpo));
    BOOST_TEST(simpo.beta == 2);
    BOOST_TEST(simpo.simpo_gamma == 1);
    BOOST_TEST(simpo.cpo_alpha == 1);
    const config::TrainingSettings cpo =
        of_recipe("cpo.sh", command + "cpo --loss_type ipo --cpo_alpha 0.5\n").training;
    BOOST_TEST((cpo.loss_type == config::LossType::ipo));
    BOOST_TEST(cpo.beta == 0.1);
    BOOST_TEST(cpo.cpo_alpha == 0.5);
    const config::Config orpo = of_recipe("orpo.sh", command + "orpo --beta 0.2\n");
    BOOST_TEST(orpo.training.compares_odds());
    BOOST_TEST(orpo.training.beta == 0.2);
    BOOST_TEST(orpo.data.completion_only_loss.value());
    const config::TrainingSettings axolotl =
        of_recipe("a.yaml",
                  "base_model: b\nrl: simpo\nrl_beta: 0.2\ncpo_alpha: 0.3\nsimpo_gamma: 0.4\n"
                  "datasets:\n  - path: p\n    type: chat_template.default\n")
            .training;
    BOOST_TEST((axolotl.loss_type == config::LossType::simpo));
    BOOST_TEST(axolotl.beta == 0.2);
    BOOST_TEST(axolotl.cpo_alpha == 0.3);
    BOOST_TEST(axolotl.simpo_gamma == 0.4);
}

BOOST_AUTO_TEST_CASE(rewards_and_labels) {
    const config::Config rewards = of_recipe(
        "rm.sh",
        "swift rlhf --model m --dataset d --rlhf_type rm --center_rewards_coefficient 0.01\n");
    BOOST_TEST((rewards.training.method == config::Method::reward));
    BOOST_TEST(rewards.training.center_rewards_coefficient.value() == 0.01);
    BOOST_TEST(rewards.data.row_template.find("rejected_response") != std::string::npos);
    const std::string command = "swift sft --model m --dataset d --task_type seq_cls ";
    const config::Config labels = of_recipe("cls.sh", command + "--num_labels 3\n");
    BOOST_TEST((labels.training.method == config::Method::classification));
    BOOST_TEST(labels.training.num_labels == 3);
    BOOST_TEST(labels.data.roles_to_train.empty());
    BOOST_TEST(labels.data.row_template.find("add_generation_prompt") != std::string::npos);
    BOOST_TEST(of_recipe("cls.sh", command + "--num_labels 1\n").training.learns_numbers());
    BOOST_TEST(
        of_recipe("cls.sh", command + "--num_labels 4 --problem_type multi_label_classification\n")
            .training.learns_label_sets());
    BOOST_TEST(
        refuses("cls.sh", command + "--num_labels 2 --problem_type regression\n", "one number"));
    BOOST_TEST(refuses("emb.sh", "swift sft --model m --dataset d --task_type embedding\n",
                       "causal_lm and seq_cls are served"));
}

BOOST_AUTO_TEST_CASE(rows_that_its_export_prepares) {
    const std::string exported =
        "swift export --model m --dataset org/d --to_cached_dataset true \\\n"
        "  --split_dataset_ratio 0.01 --output_dir ./c\n";
    const std::string command =
        "swift sft --model m --tuner_type full --cached_dataset './c/train' \\\n"
        "  --cached_val_dataset './c/val' --output_dir out\n";
    const config::Config config = of_recipe("cached.sh", exported + command);
    BOOST_TEST(config.data.datasets.find(R"("path":"org/d")") != std::string::npos);
    BOOST_TEST(config.data.test_split_size.value() == 0.01);
    BOOST_TEST(config.run.output_dir == "out");
    BOOST_TEST(
        has_note(resolution_of("cached.sh", exported + command), "cached_dataset: not needed"));
    BOOST_TEST(refuses("cached.sh", command, "cached_dataset = ./c/train"));
    BOOST_TEST(refuses("cached.sh", exported, "has no command"));
}

BOOST_AUTO_TEST_CASE(a_command_in_a_script) {
    const std::string script = R"(# 20GB
MODEL=Qwen/Qwen2.5-7B
CUDA_VISIBLE_DEVICES=0 \
swift sft \
    --model $MODEL \
    --tuner_type lora \
    --dataset 'AI/alpaca-zh#500' \
              'swift/self-cognition#500' \
    --torch_dtype bfloat16 \
    --num_train_epochs 1 \
    --system 'You are a helpful assistant.' \
    --model_name swift-robot --model_author "swift" \
    --deepspeed zero2 \
    --split_dataset_ratio 0.01 \
    --sequence_parallel_size 2 \
    --neftune_noise_alpha 15
)";
    const config::Config config = of_recipe("sft.sh", script);
    BOOST_TEST(config.training.neftune_noise_alpha.value_or(0) == 15);
    BOOST_TEST(config.model.model_name_or_path == "Qwen/Qwen2.5-7B");
    BOOST_TEST(config.adapter.lora_r == 8);
    BOOST_TEST(config.adapter.lora_alpha == 32);
    BOOST_TEST(config.training.learning_rate == 1e-4);
    BOOST_TEST(config.training.train_batch_size.value() == 16);
    BOOST_TEST(config.data.system_prompt == "You are a helpful assistant.");
    BOOST_TEST(config.data.template_variables == R"({"NAME":"swift-robot","AUTHOR":"swift"})");
    BOOST_TEST(config.data.datasets.find("train[:500]") != std::string::npos);
    BOOST_TEST(config.parallel.zero_stage == 2);
    BOOST_TEST(config.parallel.sp_size.value() == 2);
    BOOST_TEST(config.data.test_split_size.value() == 0.01);
    const Resolution resolution = resolution_of("sft.sh", script);
    BOOST_TEST(origin_of(resolution, "sp_size").ends_with("sft.sh:15, sequence_parallel_size"));
    BOOST_TEST(refuses("sft.sh", "swift sft --model m --output_dir $OUT\n", "$OUT"));
    const config::Config muon = of_recipe(
        "muon.sh", "swift sft --model m --dataset d --optimizer muon --optim_args momentum=0.9\n");
    BOOST_TEST((muon.training.optim == config::Optimizer::muon));
    BOOST_TEST(muon.training.optim_args == "momentum=0.9,adjust_lr_fn=match_rms_adamw");
    BOOST_TEST(refuses("q.sh", "swift sft --model m --dataset d --optimizer q_galore\n",
                       "optimizer = q_galore"));
    BOOST_TEST(refuses("sft.sh", "python train.py\n", "has no command"));
}

BOOST_AUTO_TEST_CASE(sums_launchers_and_recipes_in_scripts) {
    const config::Config sums = of_recipe("sums.sh", R"(n=4
torchrun --nproc_per_node=$n swift/cli/sft.py --model m --dataset d \
    --gradient_accumulation_steps $(expr 16 / $n) --max_length $((1024 * n + 1)) \
    --loss_scale last_round+ignore_empty_think
)");
    BOOST_TEST(sums.training.gradient_accumulation_steps == 4);
    BOOST_TEST(sums.data.max_length.value() == 4097);
    BOOST_TEST(sums.data.mask_reasoning.front() == "empty");
    BOOST_TEST(sums.data.train_on_last_turn_only);
    BOOST_TEST(sums.data.loss_scale.empty());
    const config::Config agent =
        of_recipe("agent.sh",
                  "swift sft --model m --dataset d --agent_template react_en --loss_scale react\n");
    BOOST_TEST(agent.data.agent_template == "react_en");
    BOOST_TEST(agent.data.loss_scale == "default+react");
    BOOST_TEST(agent.data.roles_to_train.front() == "assistant");
    BOOST_TEST(refuses("agent.sh", "swift sft --model m --dataset d --agent_template glm4\n",
                       "must be hermes or react_en"));
    BOOST_TEST(refuses("agent.sh", "swift sft --model m --dataset d --loss_scale agentflan\n",
                       "qwen and alpha_umi are served"));
    const TemporaryFile recipe("sft.yaml", "model: m\ndataset: d\nlora_rank: 4\nENV:\n  A: 1\n");
    const std::string command = "NPROC_PER_NODE=2 swift sft " + recipe.path() + " --lora_rank 16\n";
    BOOST_TEST(of_recipe("yaml.sh", command).adapter.lora_r == 16);
    BOOST_TEST(refuses("gone.sh", "swift sft gone.yaml\n", "gone.yaml is not there"));
    BOOST_TEST(refuses("a.sh", "swift sft --model $(pick)\n", "$(pick)"));
    BOOST_TEST(refuses("echo.sh", "echo swift sft --model m\n", "has no command"));
}

BOOST_AUTO_TEST_CASE(rows_without_a_chat_template) {
    const config::Config config = of_recipe("pt.sh", "swift pt --model m --dataset d\n");
    BOOST_TEST(config.data.roles_to_train.empty());
    BOOST_TEST(config.data.row_template.find("eos_token") != std::string::npos);
    BOOST_TEST(refuses("pt.sh", "swift pt --model m --dataset d --loss_scale default\n",
                       "give loss_scale all"));
}

BOOST_AUTO_TEST_CASE(the_command_for_megatron) {
    const config::Config config = of_recipe("megatron.sh", R"(
megatron sft --model m --tensor_model_parallel_size 4 --micro_batch_size 2 \
    --global_batch_size 32 --lr 1e-5 --min_lr 1e-6 --lr_warmup_fraction 0.05 \
    --recompute_granularity full --finetune true --no_save_optim true --dataset d
)");
    BOOST_TEST(config.training.train_batch_size.value() == 32);
    BOOST_TEST(config.training.lr_scheduler_kwargs == R"({"min_lr":1e-06})");
    BOOST_TEST(config.training.warmup_steps == 0.05);
    BOOST_TEST((config.parallel.distributed_type == config::DistributedType::fsdp));
    BOOST_TEST(!config.adapter.use_peft);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(automodel)

BOOST_AUTO_TEST_CASE(a_recipe_of_hellaswag) {
    const std::string recipe = R"(recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler:
  global_batch_size: 64
  local_batch_size: 8
  ckpt_every_steps: 100
  val_every_steps: 50
  max_steps: 20
dist_env:
  backend: nccl
rng:
  _target_: nemo_automodel.components.training.rng.StatefulRNG
  seed: 1111
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: org/m
checkpoint:
  enabled: true
  checkpoint_dir: out/
peft:
  _target_: nemo_automodel.components._peft.lora.PeftConfig
  target_modules: "*_proj"
  dim: 16
  alpha: 32
distributed:
  strategy: fsdp2
  tp_size: 2
  dp_replicate_size: none
loss_fn:
  _target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy
dataset:
  _target_: nemo_automodel.components.datasets.llm.hellaswag.HellaSwag
  path_or_dataset: rowan/hellaswag
  split: train
validation_dataset:
  _target_: nemo_automodel.components.datasets.llm.hellaswag.HellaSwag
  path_or_dataset: rowan/hellaswag
  split: validation
  num_samples_limit: 64
optimizer:
  _target_: torch.optim.Adam
  betas: [0.9, 0.95]
  eps: 1e-8
  lr: 1.0e-5
  weight_decay: 0
)";
    const config::Config config = of_recipe("automodel.yaml", recipe);
    BOOST_TEST(config.training.train_batch_size.value() == 64);
    BOOST_TEST(config.training.per_device_train_batch_size == 8);
    BOOST_TEST(config.training.adam_beta2 == 0.95);
    BOOST_TEST(config.run.seed == 1111);
    BOOST_TEST(config.adapter.lora_target_modules.front() == "(.*_proj)");
    BOOST_TEST(config.data.dataset_name == "rowan/hellaswag");
    BOOST_TEST(config.data.row_template.find("endings[label | int]") != std::string::npos);
    BOOST_TEST(config.data.dataset_test_split == "validation[:64]");
    BOOST_TEST(config.evaluation.eval_steps.value() == 50);
    BOOST_TEST(refuses("automodel.yaml", recipe + "teacher_model: x\n", "teacher_model"));
    const std::string noise = recipe + "neftune:\n  noise_alpha: 5.0\n";
    BOOST_TEST(of_recipe("automodel.yaml", noise).training.neftune_noise_alpha.value_or(0) == 5);
    std::string decays = recipe;
    decays.replace(decays.find("weight_decay: 0"), 15, "weight_decay: 0.1");
    BOOST_TEST(of_recipe("automodel.yaml", decays).training.optim_args ==
               "decoupled_weight_decay=False");
    BOOST_TEST(of_recipe("automodel.yaml", decays).training.weight_decay == 0.1);
}

// The accumulation follows from the rows of a step and the ranks.
BOOST_AUTO_TEST_CASE(its_schedule) {
    const std::string recipe = R"(model:
  pretrained_model_name_or_path: m
step_scheduler:
  global_batch_size: 8
  local_batch_size: 1
  max_steps: 100
optimizer:
  _target_: torch.optim.AdamW
  lr: 1.0e-4
lr_scheduler:
  lr_decay_style: cosine
  min_lr: 1.0e-5
dataset:
  _target_: nemo_automodel.components.datasets.llm.hellaswag.HellaSwag
  path_or_dataset: d
)";
    const config::Config config = of_recipe("schedule.yaml", recipe);
    BOOST_TEST((config.training.lr_scheduler_type == config::Schedule::cosine_warmup_with_min_lr));
    BOOST_TEST(config.training.warmup_steps == 11);  // a tenth of the steps, from 0.1 to 1
    BOOST_TEST(config.training.lr_scheduler_kwargs.find(R"("warmup_lr_rate":0.1)") !=
               std::string::npos);
    BOOST_TEST(config.training.lr_scheduler_kwargs.find(R"("min_lr_rate":0.1)") !=
               std::string::npos);
    BOOST_TEST(config.training.weight_decay == 0.01);
}

BOOST_AUTO_TEST_CASE(rows_of_a_step_over_ranks) {
    const auto steps = [](const std::vector<std::string>& flags, int64_t world) {
        return resolve(flags)
            .settings.on_ranks(world, table)
            .values.training.gradient_accumulation_steps;
    };
    const std::vector<std::string> flags{"--train_batch_size", "64",
                                         "--per_device_train_batch_size", "4"};
    BOOST_TEST(steps(flags, 2) == 8);
    std::vector<std::string> split = flags;
    split.insert(split.end(), {"--sp_size", "2"});
    BOOST_TEST(steps(split, 4) == 8);
    BOOST_TEST(steps(flags, 3) == 1);  // check_batch refuses it
    std::vector<std::string> given = flags;
    given.insert(given.end(), {"--gradient_accumulation_steps", "2"});
    BOOST_TEST(steps(given, 2) == 2);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(hugging_face)

BOOST_AUTO_TEST_CASE(a_mixture_of_alignment_handbook) {
    const config::Config config = of_recipe("handbook.yaml", R"(model_name_or_path: m
chat_template: "{% for message in messages %}{{ message['content'] }}{% endfor %}"
dataset_mixture:
  datasets:
    - id: org/chat
      config: default
      split: train_sft
      columns:
        - messages
      weight: 0.5
    - id: org/other
  test_split_size: 1000
  seed: 3
report_to:
- wandb
hub_model_id: me/model
push_to_hub: true
)");
    BOOST_TEST(config.data.datasets ==
               R"([{"columns":["messages"],"epochs":0.5,"name":"default","path":"org/chat",)"
               R"("split":"train_sft"},{"path":"org/other"}])");
    BOOST_TEST(config.data.mixture_seed.value() == 3);
    BOOST_TEST(config.data.test_split_size.value() == 1000);
    BOOST_TEST(config.checkpoint.push_to_hub);
    BOOST_TEST(config.logging.report_to == std::vector<std::string>{"wandb"},
               boost::test_tools::per_element());
    // The seed of a mixture is 0 if it is not given.
    BOOST_TEST(of_recipe("mixture.yaml", "dataset_mixture:\n  datasets:\n    - id: a\n")
                   .data.mixture_seed.value() == 0);
}

// TRL's example of a million tokens: the file of Accelerate, and the arguments of SFTConfig.
BOOST_AUTO_TEST_CASE(a_million_tokens) {
    const TemporaryFile accelerate("context_parallel_8gpu.yaml", R"(distributed_type: FSDP
mixed_precision: bf16
num_processes: 8
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_cpu_ram_efficient_loading: true
parallelism_config:
  parallelism_config_cp_size: 8
)");
    const config::Config config = of_recipe("sft.yaml", R"(model_name_or_path: Qwen/Qwen3-8B
output_dir: Qwen3-8B-1M
max_length: 1048576
per_device_train_batch_size: 1
logging_steps: 1
save_strategy: "no"
pad_to_multiple_of: 16
gradient_checkpointing_kwargs: {"offload": true}
bf16: true
model_init_kwargs:
  dtype: bfloat16
  rope_parameters:
    rope_type: yarn
    rope_theta: 1000000
    factor: 32.0
    original_max_position_embeddings: 32768
)",
                                            {"--config_file", accelerate.path()});
    BOOST_TEST(config.parallel.cp_size.value() == 8);
    BOOST_TEST((config.parallel.distributed_type == config::DistributedType::fsdp));
    BOOST_TEST(config.data.max_length.value() == 1048576);
    BOOST_TEST(config.training.activation_offloading);
    BOOST_TEST(config.training.gradient_checkpointing);
    BOOST_TEST(config.model.overrides() ==
               R"({"rope_parameters":{"rope_type":"yarn","rope_theta":1000000,"factor":32.0,)"
               R"("original_max_position_embeddings":32768}})");
}

BOOST_AUTO_TEST_CASE(positions_that_are_wrong) {
    const auto wrong = [](const std::string& rope, const std::string& words) {
        BOOST_TEST(says(problem({"--rope_parameters", rope}), words), rope);
    };
    wrong(R"({"rope_type": "yarm"})", R"(rope_type = "yarm": this program serves)");
    wrong(R"({"rope_type": "yarm"})", "did you mean yarn?");
    wrong(R"({"rope_type": "yarn", "factor": "4"})", R"(factor = "4": must be a number above 0)");
    wrong(R"({"rope_type": "yarn", "factor": 0})", "factor = 0: must be a number above 0");
    wrong("[4]", "must be a mapping");
    wrong(R"({"full_attention": {"rope_type": "linear"}, "factor": 2})",
          "factor: full_attention and sliding_attention have a mapping each");
    wrong(R"({"full_attention": {"rope_type": "linear", "factor": -1}})",
          "full_attention: factor = -1: must be a number above 0");
    BOOST_TEST(resolve({"--rope_parameters", R"({"full_attention": {"rope_type": "default"}})"})
                   .problems.empty());
}

// Fields of BitsAndBytesConfig, and settings that alignment-handbook and Accelerate have in blocks.
BOOST_AUTO_TEST_CASE(blocks_of_other_libraries) {
    const config::Config config = values(
        {"--use_peft", "--quantization_config",
         R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true,
             "bnb_4bit_compute_dtype": "bfloat16", "quant_method": "bitsandbytes"})",
         "--gradient_accumulation_kwargs", R"({"num_steps": 4, "sync_each_batch": true})",
         "--dataset_kwargs", R"({"add_special_tokens": false, "append_concat_token": false})"});
    BOOST_TEST(config.quantization.load_in_4bit);
    BOOST_TEST(config.quantization.use_bnb_nested_quant);
    BOOST_TEST(config.training.gradient_accumulation_steps == 4);
    BOOST_TEST(values({"--dataset_kwargs", R"({"skip_prepare_dataset": true})"})
                   .data.skip_prepare_dataset);
    BOOST_TEST(says(problem({"--quantization_config", R"({"load_in_3bit": true})"}),
                    "did you mean load_in_4bit?"));
}

BOOST_AUTO_TEST_CASE(fields_of_config_json) {
    const char* const kwargs =
        R"({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}, "rms_norm_eps": 1e-5,
            "attn_implementation": "flash_attention_2", "dtype": "bfloat16"})";
    const config::Config config =
        values({"--model_init_kwargs", kwargs, "--max_position_embeddings", "131072"});
    BOOST_TEST(config.model.overrides() ==
               R"({"rms_norm_eps":1e-05,"rope_parameters":{"rope_type":"yarn","factor":4.0},)"
               R"("max_position_embeddings":131072})");
    BOOST_TEST(config.model.dtype == "bfloat16");
    BOOST_TEST(
        of_recipe("kwargs.yaml", "model_init_kwargs:\n  rope_parameters:\n    rope_type: yarn\n")
            .model.rope_parameters == R"({"rope_type":"yarn"})");
    BOOST_TEST(values({"--rope_parameters", R"({"rope_type": "default"})"}).model.overrides() ==
               R"({"rope_parameters":{"rope_type":"default"}})");
    BOOST_TEST(values({}).model.overrides().empty());
}

BOOST_AUTO_TEST_SUITE_END()
