#include "recipes.hpp"

using namespace ringshard;
using namespace ringshard::test;

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

BOOST_AUTO_TEST_CASE(a_recipe_of_torchtune_is_named) {
    BOOST_TEST(refuses("a.yaml",
                       "model:\n  _component_: torchtune.models.llama3_2.llama3_2_1b\nepochs: 1\n",
                       "is a recipe of torchtune"));
}

BOOST_AUTO_TEST_SUITE_END()
