#include "recipes.hpp"

using namespace ringshard;
using namespace ringshard::test;

BOOST_AUTO_TEST_SUITE(hugging_face)

BOOST_AUTO_TEST_CASE(a_recipe_of_simpo) {
    const std::string recipe =
        "model_name_or_path: m\ndataset_mixer:\n  org/pairs: 1.0\ndataset_splits:\n- train\n- "
        "test\n"
        "beta: 10\ngamma_beta_ratio: 0.5\nlearning_rate: 8.0e-7\n";
    const config::TrainingSettings training = of_recipe("simpo.yaml", recipe).training;
    BOOST_TEST((training.method == config::Method::cpo));
    BOOST_TEST((training.loss_type == config::LossType::simpo));
    BOOST_TEST(training.beta == 10);
    BOOST_TEST(training.simpo_gamma == 5);
    BOOST_TEST(training.cpo_alpha == 0);
    BOOST_TEST(of_recipe("simpo.yaml", "model_name_or_path: m\ngamma_beta_ratio: 0.25\n")
                   .training.simpo_gamma == 0.5);
    BOOST_TEST(resolution_of("simpo.yaml", recipe + "loss_type: sigmoid\n").problems.empty());
    BOOST_TEST(refuses("simpo.yaml", recipe + "loss_type: hinge\n", "the logistic loss of SimPO"));
    BOOST_TEST(refuses("simpo.yaml", recipe + "sft_weight: 0.5\n", "sft_weight = 0.5"));
}

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

// An older file of alignment-handbook, for the trainer of preferences of its time.
BOOST_AUTO_TEST_CASE(an_older_mixture_of_alignment_handbook) {
    const std::string text = R"(model_name_or_path: org/base
torch_dtype: null
use_flash_attention_2: true
method: dpo
dataset_mixer:
  org/pairs: 1.0
dataset_splits:
- train_prefs
- test_prefs
preprocessing_num_workers: 12
max_length: 1024
max_prompt_length: 512
padding_free: true
hub_model_revision: v1
eval_strategy: "no"
output_dir: ./out
)";
    const config::Config config = of_recipe("handbook_dpo.yaml", text);
    BOOST_TEST(config.data.datasets == R"([{"path":"org/pairs","split":"train_prefs"}])");
    BOOST_TEST(config.data.eval_dataset_name == "org/pairs");
    BOOST_TEST(config.data.dataset_test_split == "test_prefs");
    BOOST_TEST(config.model.dtype == "auto");
    BOOST_TEST(config.checkpoint.hub_revision == "v1");
    const Resolution resolution = resolution_of("handbook_dpo.yaml", text);
    BOOST_TEST(std::ranges::any_of(resolution.notes, [](const std::string& note) {
        return note.find("max_prompt_length = 512") != std::string::npos;
    }));
    const std::string head = "model_name_or_path: m\noutput_dir: o\n";
    BOOST_TEST(refuses("a.yaml", head + "dataset_mixer: {a: 0.5}\n", "takes a part of a"));
    BOOST_TEST(refuses("a.yaml", head + "dataset_mixer: {a: 1, b: 1}\n", "several datasets"));
    BOOST_TEST(refuses("a.yaml", head + "dataset_mixer: 3\n", "dataset_mixer"));
    BOOST_TEST(refuses("a.yaml", head + "dataset_mixer: {}\n", "nothing to learn"));
    BOOST_TEST(refuses("a.yaml", head + "dataset_mixer: {a: 1}\ndataset_splits: [valid]\n",
                       "has valid, and a split has train or test"));
    BOOST_TEST(refuses("a.yaml", head + "dataset_name: d\ndataset_splits: [train]\n",
                       "beside dataset_mixer only"));
    BOOST_TEST(of_recipe("a.yaml", head + "dataset_mixer: {a: 1}\ndataset_splits: [train]\n",
                         {"--dataset_splits", "train_y"})
                   .data.datasets == R"([{"path":"a","split":"train_y"}])");
}

BOOST_AUTO_TEST_SUITE_END()
