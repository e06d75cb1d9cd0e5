#include "recipes.hpp"

using namespace ringshard;
using namespace ringshard::test;

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

BOOST_AUTO_TEST_CASE(adapters_and_early_ends) {
    const std::string head = "model: m\ndataset: [d]\ntuner_type: lora\nval_dataset: [e]\n";
    const config::Config config =
        of_recipe("a.yaml", head + "adapters: [a/b]\nearly_stop_interval: 3\n");
    BOOST_TEST(config.adapter.adapter_name_or_path == "a/b");
    BOOST_TEST(config.evaluation.metric_for_best_model == "loss");
    BOOST_TEST(refuses("a.yaml", head + "adapters: [a, b]\n", "one adapter goes on"));
}

BOOST_AUTO_TEST_SUITE_END()
