#include "recipes.hpp"

using namespace ringshard;
using namespace ringshard::test;

namespace {

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

// axolotl refuses these, and a value that is left out without a word would change the run.
BOOST_AUTO_TEST_CASE(keys_that_contradict_each_other) {
    const std::string start = "base_model: b\nlearning_rate: 1e-5\n";
    BOOST_TEST(refuses("a.yaml", start + "saves_per_epoch: 2\nsave_steps: 7\n",
                       "axolotl refuses it beside save_steps"));
    BOOST_TEST(refuses("a.yaml", start + "evals_per_epoch: 2\neval_steps: 7\n",
                       "axolotl refuses it beside eval_steps"));
    BOOST_TEST(refuses("a.yaml", start + "save_steps: 2\nsave_strategy: epoch\n",
                       "axolotl refuses it beside save_steps"));
    BOOST_TEST(refuses("a.yaml", start + "evals_per_epoch: 2\nevaluation_strategy: epoch\n",
                       "axolotl refuses it beside evals_per_epoch"));
    BOOST_TEST(resolution_of("a.yaml", start + "saves_per_epoch: 1\nsave_strategy: epoch\n")
                   .problems.empty());
    BOOST_TEST(refuses("a.yaml", start + "batch_size: 8\ngradient_accumulation_steps: 4\n",
                       "refuses it beside gradient_accumulation_steps"));
    BOOST_TEST(has_note(resolution_of("a.yaml", start + "bf16: true\nfp16: true\n"),
                        "fp16: not needed, axolotl goes by bf16 beside it"));
    BOOST_TEST(
        refuses("a.yaml", start + "num_epochs: 1\nnum_epochs: 2\n", "the file has the key twice"));
    BOOST_TEST(resolution_of("a.yaml", start + "num_epochs: 1\nnum_epochs: 1\n").problems.empty());
    BOOST_TEST(refuses("a.yaml", start + "datasets:\n  - path: p\n    field: 5\n",
                       "a value of a form that axolotl does not take"));
}

BOOST_AUTO_TEST_CASE(the_form_of_the_result) {
    const std::string start = "base_model: b\nlearning_rate: 1e-4\n";
    for (const char* form : {"fsdp_final_state_dict_type: SHARDED_STATE_DICT\n",
                             "fsdp_config:\n  final_state_dict_type: FULL_STATE_DICT\n"}) {
        const Resolution resolution = resolution_of("a.yaml", start + form);
        BOOST_TEST(resolution.problems.empty());
        BOOST_TEST(has_note(resolution, "the result is a whole model in safetensors"));
    }
}

BOOST_AUTO_TEST_CASE(rates_of_embeddings) {
    const std::string start = "base_model: b\nlearning_rate: 1e-4\n";
    BOOST_TEST(of_recipe("a.yaml", start + "embedding_lr: 5e-5\n").training.lr_groups ==
               R"([{"lr":0.5,"pattern":"embed_tokens|lm_head","weight_decay":0}])");
    BOOST_TEST(of_recipe("a.yaml", start + "embedding_lr_scale: 0.5\nadapter: lora\n"
                                           "lora_modules_to_save:\n  - lm_head\n  - norm\n")
                   .training.lr_groups ==
               R"([{"lr":0.5,"pattern":"embed_tokens|lm_head|norm","weight_decay":0}])");
    BOOST_TEST(of_recipe("a.yaml", start + "embedding_lr: 5e-5\nadapter: lora\n"
                                           "lora_modules_to_save: embed_tokens\n")
                   .training.lr_groups.find("\"lr\":0.5") != std::string::npos);
    BOOST_TEST(refuses("a.yaml", "base_model: b\nembedding_lr: 5e-5\n",
                       "a part of learning_rate, which is not there"));
    BOOST_TEST(refuses("a.yaml", start + "embedding_lr: high\n", "it must be a number above 0"));
    BOOST_TEST(refuses("a.yaml", start + "embedding_lr_scale: -1\n", "it must be a number above"));
    BOOST_TEST(
        resolution_of("a.yaml", "base_model: b\nembedding_lr_scale: 0.5\n").problems.empty());
    BOOST_TEST(has_note(resolution_of("a.yaml", start + "embedding_lr: 5e-5\nadapter: lora\n"),
                        "embedding_lr: not needed, no embedding is trained"));
    BOOST_TEST(refuses("a.yaml", start + "embedding_lr: 5e-5\nembedding_lr_scale: 0.5\n",
                       "refuses it beside embedding_lr_scale"));
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
    BOOST_TEST(refuses("a.yaml", recipe("zephyr.nectar", ""), "the type zephyr.nectar"));
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

BOOST_AUTO_TEST_CASE(parts_of_datasets_and_of_tensors_are_not_left_out) {
    const auto refuses_entry = [](const std::string& key, const std::string& words) {
        return refuses("a.yaml",
                       "base_model: m\nmicro_batch_size: 1\ndatasets:\n  - path: d\n    type: "
                       "chat_template\n    " +
                           key + "\n",
                       words);
    };
    BOOST_TEST(refuses_entry("shards: 10", "a slice of split takes a part"));
    BOOST_TEST(refuses_entry("revision: v2", "the revision of a dataset"));
    BOOST_TEST(refuses_entry("train_on_eos: all", "train_on_eos all"));
    const std::string head = "base_model: m\nmicro_batch_size: 1\ndatasets: [{path: d}]\n";
    BOOST_TEST(refuses("a.yaml", head + "unfrozen_parameters: ['^lm_head.weight$[:32000]']\n",
                       "not rows [a:b] of it"));
    BOOST_TEST(of_recipe("a.yaml", head + "unfrozen_parameters: ['^lm_head.weight$']\n")
                   .model.train_only == "^(?:^lm_head.weight$)");
    const config::Config config = of_recipe("a.yaml", head + R"(tokens: ["<a>"]
special_tokens:
  bos_token: "<s>"
  additional_special_tokens: ["<b>", "<c>"]
)");
    BOOST_TEST(config.model.added_tokens == (std::vector<std::string>{"<a>", "<b>", "<c>"}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(losses_of_pairs) {
    const config::Config config = of_recipe("a.yaml", R"(base_model: m
micro_batch_size: 1
rl: dpo
dpo_loss_type: ["ipo"]
dpo_padding_free: true
dpo_use_logits_to_keep: true
datasets: [{path: d, type: chat_template.default}]
)");
    BOOST_TEST((config.training.loss_type == config::LossType::ipo));
}

BOOST_AUTO_TEST_CASE(pairs_with_marks_of_a_family) {
    const auto rows_of = [](const std::string& type) {
        return of_recipe("a.yaml",
                         "base_model: m\nmicro_batch_size: 1\nrl: dpo\ndatasets: "
                         "[{path: d, type: " +
                             type + "}]\n")
            .data.datasets;
    };
    BOOST_TEST(rows_of("llama3.argilla_chat") ==
               R"([{"path":"d","row_template":"{\"prompt\": {{ (('<|start_header_id|>' ~ 'user' ~ )"
               R"('<|end_header_id|>\\n\\n' ~ chosen[0]['content'] ~ '<|eot_id|>') ~ )"
               R"('<|start_header_id|>assistant<|end_header_id|>\\n\\n') | tojson }}, \"chosen\": )"
               R"({{ (chosen[1]['content'] ~ '<|eot_id|>') | tojson }}, \"rejected\": )"
               R"({{ (rejected[1]['content'] ~ '<|eot_id|>') | tojson }}}","split":"train"}])");
    BOOST_TEST(rows_of("chatml.default")
                   .find("(rejected if rejected is defined else "
                         "rejected_response)") != std::string::npos);
    for (const char* type : {"chatml.icr", "chatml.intel", "llama3.prompt_pairs", "llama3.ultra"})
        BOOST_TEST(rows_of(type).find("if system is defined and system") != std::string::npos);
    BOOST_TEST(refuses("a.yaml",
                       "base_model: m\nrl: dpo\ndatasets: [{path: d, type: zephyr.nectar}]\n",
                       "the type zephyr.nectar"));
}

BOOST_AUTO_TEST_SUITE_END()
