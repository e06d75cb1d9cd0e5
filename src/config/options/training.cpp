#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

namespace {

// Adds the settings of learning from stored log-probabilities, under the names of TRL's trainers
// of distillation, and ms-swift's name for the share of the data's loss.
void add_distillation_options(OptionGroup<TrainingSettings>& group) {
    group.serve("teacher_scores", &TrainingSettings::teacher_scores,
                "Learn from a teacher: a folder with the scores that `trainer score --top_k N` "
                "wrote for the rows of this dataset.");
    group
        .serve("beta", &TrainingSettings::beta,
               "With teacher_scores: the divergence from the teacher. 0: forward KL; 1: reverse "
               "KL; between: generalised Jensen-Shannon. Of answers: the factor of rewards.")
        .shapes_loss_if_set()
        .at_least(0);
    group
        .serve("temperature", &TrainingSettings::temperature,
               "With teacher_scores: the temperature of both distributions; for score: that of the "
               "top_k log-probabilities that it writes; with method embedding: the divisor of "
               "similarities.")
        .shapes_loss_if_set()
        .above(0);
    group
        .serve("loss_top_k", &TrainingSettings::loss_top_k,
               "With teacher_scores: how many of the teacher's most likely tokens count; null: all "
               "that the scores have.")
        .shapes_loss_if_set()
        .at_least(1)
        .at_most(1000);
    group
        .serve("loss_add_tail", &TrainingSettings::loss_add_tail,
               "With teacher_scores: all other tokens together count as one more; false: both "
               "distributions are those of the most likely tokens alone.")
        .shapes_loss_if_set();
    group
        .serve("sft_alpha", &TrainingSettings::sft_alpha,
               "With teacher_scores: the loss is the divergence plus this many times the loss of "
               "the data.")
        .shapes_loss_if_set()
        .at_least(0);
    group.serve("anchor", &TrainingSettings::anchor,
                "Against forgetting: rows with the scores of the base model, a folder that "
                "`trainer score --top_k N` wrote; training takes them too, and their loss is the "
                "divergence from the base model.");
    group
        .serve("anchor_weight", &TrainingSettings::anchor_weight,
               "With anchor: the factor of the divergence of its rows; 0: it is measured alone.")
        .shapes_loss_if_set()
        .at_least(0);
}

}  // namespace

void add_training_options(OptionTable& table) {
    OptionGroup group(table, "Training", &Config::training);
    group
        .serve("per_device_train_batch_size", &TrainingSettings::per_device_train_batch_size,
               "Rows per data rank and micro-batch.")
        .at_least(1)
        .at_most(1e6);
    group.serve("auto_find_batch_size", &TrainingSettings::auto_find_batch_size,
                "Choose per_device_train_batch_size and gradient_accumulation_steps: the largest "
                "micro-batch whose plan fits into the memory, at the rows of a step that the two "
                "settings give.");
    group
        .serve("gradient_accumulation_steps", &TrainingSettings::gradient_accumulation_steps,
               "Micro-batches per step.")
        .at_least(1)
        .at_most(1e6);
    group
        .serve("train_batch_size", &TrainingSettings::train_batch_size,
               "Rows of a step, as a DeepSpeed file counts them: a world in which "
               "per_device_train_batch_size x gradient_accumulation_steps x data ranks is another "
               "number is refused; null: any number.")
        .at_least(1);
    group.serve("num_train_epochs", &TrainingSettings::num_train_epochs, "Passes over the data.")
        .above(0)
        .at_most(1e6);
    group
        .serve("max_steps", &TrainingSettings::max_steps,
               "Number of steps; wins over the epochs if above 0.")
        .at_least(-1)
        .at_most(1e15);
    group.serve("learning_rate", &TrainingSettings::learning_rate, "Peak learning rate.")
        .shapes_loss()
        .at_least(0);
    group
        .serve(
            "loraplus_lr_ratio", &TrainingSettings::loraplus_lr_ratio,
            "LoRA+: the learning rate of B of every adapter, and of vectors, is this number times "
            "learning_rate.")
        .above(0)
        .at_most(1e6)
        .shapes_loss_if_set();
    group.refuse(
        "loraplus_lr_embedding", Shape::number, "null",
        "LoRA+ is not served beside an adapter of the embedding, whose rate this is; leave it "
        "out, or train the embedding whole: lora_modules_to_save embed_tokens");
    group
        .serve(
            "neftune_noise_alpha", &TrainingSettings::neftune_noise_alpha,
            "NEFTune: in training, uniform noise within neftune_noise_alpha / sqrt(length of the "
            "document x width) is added to the rows of the embedding.")
        .at_least(0)
        .shapes_loss_if_set();
    group
        .serve("lr_scheduler_type", &TrainingSettings::lr_scheduler_type,
               "Schedule of the learning rate.")
        .shapes_loss()
        .but_not({"greedy"}, "use reduce_lr_on_plateau, cosine or warmup_stable_decay");
    group
        .serve_json("lr_scheduler_kwargs", &TrainingSettings::lr_scheduler_kwargs,
                    "Further settings of the schedule, such as {\"min_lr_rate\": 0.1}.")
        .shapes_loss();
    group
        .serve("warmup_steps", &TrainingSettings::warmup_steps,
               "Warm-up steps, with rising learning rate; below 1: a share of all steps.")
        .shapes_loss()
        .at_least(0)
        .at_most(1e15);
    group.serve("optim", &TrainingSettings::optim, "Optimizer.")
        .shapes_loss()
        .but_not(
            {"adamw_hf",
             "ademamix",
             "ademamix_8bit",
             "paged_ademamix_32bit",
             "paged_ademamix_8bit",
             "rmsprop_bnb",
             "rmsprop_bnb_8bit",
             "rmsprop_bnb_32bit",
             "galore_adamw",
             "galore_adamw_8bit",
             "galore_adafactor",
             "galore_adamw_layerwise",
             "galore_adamw_8bit_layerwise",
             "galore_adafactor_layerwise",
             "lomo",
             "adalomo",
             "grokadamw",
             "schedule_free_radam",
             "apollo_adamw",
             "apollo_adamw_layerwise",
             "stable_adamw",
             "flash_adam",
             "flash_sgd",
             "flash_sgdw"},
            "use adamw_torch, adamw_8bit, lion_32bit, adafactor, adagrad, rmsprop, sgd, muon or "
            "schedule_free_adamw")
        .takes(
            {"paged_adamw_8bit"}, "adamw_8bit",
            "it is AdamW with moments in 8 bits, whose pages bitsandbytes moves to the host when "
            "memory is short; offload_optimizer_device moves all of it")
        .takes({"adamw_torch_8bit", "flash_adamw"}, "adamw_8bit",
               "its moments are in 8 bits as bitsandbytes writes them, in blocks of 256")
        .takes({"adamw_torch_4bit"}, "adamw_8bit",
               "its moments are in 8 bits, 2 bytes a parameter where 4 bits take 1")
        .takes({"paged_adamw", "paged_adamw_32bit"}, "adamw_torch",
               "it is AdamW, 8 bytes a parameter, whose pages bitsandbytes moves to the host when "
               "memory is short; offload_optimizer_device moves all of it, optimizer_state_dtype "
               "bf16 takes 4 bytes")
        .takes({"adamw_anyprecision"}, "adamw_torch",
               "AdamW keeps its moments in fp32, 8 bytes a parameter; optimizer_state_dtype bf16 "
               "takes 4")
        .takes({"adamw_apex_fused", "adamw_torch_xla", "adamw_torch_npu_fused"}, "adamw_torch",
               "it is AdamW in another program's kernel")
        .takes({"paged_lion_8bit", "flash_lion"}, "lion_8bit",
               "it is Lion with its moment in 8 bits, in blocks of 256; offload_optimizer_device "
               "moves all of it to the host")
        .takes({"paged_lion_32bit"}, "lion_32bit",
               "it is Lion, 4 bytes a parameter, whose pages bitsandbytes moves to the host when "
               "memory is short; offload_optimizer_device moves all of it");
    group
        .serve("optim_args", &TrainingSettings::optim_args,
               "Arguments of optim, key=value,key=value. adamw_torch: decoupled_weight_decay; sgd: "
               "momentum, dampening, nesterov; rmsprop: alpha, eps; adagrad: lr_decay, eps; muon: "
               "momentum, nesterov, ns_steps, adjust_lr_fn; schedule_free_adamw: r, "
               "weight_lr_power.")
        .shapes_loss_if_set();
    group
        .serve_json("lr_groups", &TrainingSettings::lr_groups,
                    "Rates by names of weights, the first match of a list: "
                    "[{\"pattern\": \"embed_tokens\", \"lr\": 0.1}]; lr is a factor; also "
                    "weight_decay, betas, optim.")
        .shapes_loss_if_set();
    group
        .serve("weight_decay", &TrainingSettings::weight_decay,
               "Decoupled weight decay of matrices; biases and norms have none.")
        .shapes_loss()
        .at_least(0);
    group
        .serve("adam_beta1", &TrainingSettings::adam_beta1,
               "Decay of the first moment; of Lion: of the mean whose sign is the direction.")
        .shapes_loss()
        .at_least(0)
        .below(1);
    group
        .serve("adam_beta2", &TrainingSettings::adam_beta2,
               "Decay of the second moment; of Lion: of its one moment.")
        .shapes_loss()
        .at_least(0)
        .below(1);
    group
        .serve("adam_epsilon", &TrainingSettings::adam_epsilon,
               "Added to the root of the second moment; Lion has none.")
        .shapes_loss()
        .above(0);
    group.serve("optimizer_state_dtype", &TrainingSettings::optimizer_state_dtype,
                "Type of the optimizer's moments: fp32, or bf16 with stochastic rounding.");
    group
        .serve("max_grad_norm", &TrainingSettings::max_grad_norm,
               "Norm to which larger gradients are clipped; 0: no clipping.")
        .shapes_loss()
        .at_least(0);
    group.serve(
        "on_nan", &TrainingSettings::on_nan,
        "When loss or gradient are no finite numbers: abort; skip the step; or rewind to the "
        "newest checkpoint, and skip the step if it goes bad again.");
    group
        .serve("max_skipped_steps", &TrainingSettings::max_skipped_steps,
               "With on_nan skip or rewind: this many steps in a row may be skipped.")
        .at_least(0);
    group
        .serve("check_replicas_every", &TrainingSettings::check_replicas_every,
               "Compare the replicas of weights and moments every so many steps, and end the run "
               "if one differs; 0: never.")
        .at_least(0);
    group
        .serve("loss_type", &TrainingSettings::loss_type,
               "Cross-entropy; its dynamic fine-tuning form; or eaft, which multiplies that of a "
               "token by the entropy of the model's 20 most likely tokens. With method dpo, cpo "
               "and kto: the loss of answers, one of TRL's.")
        .shapes_loss()
        .but_not({"sft"},
                 "rpo_alpha is its weight beside a loss of pairs, such as sigmoid; trainer sft "
                 "trains on "
                 "the chosen answers alone")
        .but_not({"aot", "aot_unpaired"},
                 "it depends on which pairs meet in a batch, so on the number of ranks; name a "
                 "loss of one pair, such as sigmoid");
    group
        .serve("eaft_alpha", &TrainingSettings::eaft_alpha,
               "With loss_type eaft: the power of the entropy.")
        .shapes_loss_if_set()
        .at_least(0);
    group
        .serve("label_smoothing_factor", &TrainingSettings::label_smoothing_factor,
               "Share of the target that is spread over the vocabulary.")
        .shapes_loss()
        .at_least(0)
        .at_most(1);

    add_distillation_options(group);

    group.alias("gradient_clipping", "max_grad_norm", Shape::number);
    table.add(Alias{"warmup_ratio",
                    "warmup_steps",
                    Shape::number,
                    {},
                    "is the older name of warmup_steps",
                    1.0,
                    "it is a share of all steps; give a number of steps as warmup_steps"});

    group.accept("use_liger_kernel", Shape::boolean, "false",
                 "the built-in operations are always fused");
    group.accept_all({{"liger_kernel_config", Shape::json}, {"use_kernels", Shape::boolean}},
                     "the built-in operations are always fused");
    group.accept("torch_empty_cache_steps", Shape::integer, "null",
                 "memory is planned, not collected");
    group.accept("do_train", Shape::boolean, "false", "training is what this command does");
    group.refuse(
        "average_tokens_across_devices", Shape::boolean, "true",
        "the loss would depend on the layout; it is always the mean over all target tokens");
    group.refuse("optim_target_modules", Shape::list, "null", "every weight is trained");
    group.refuse("adafactor", Shape::boolean, "false", "use optim adafactor");
    const std::string stored =
        "a teacher's log-probabilities are read from files: write them with "
        "trainer score --top_k N, and name them in teacher_scores";
    group.refuse("teacher_model_name_or_path", Shape::word, "null", stored);
    const std::string off_policy =
        "the student learns from the rows of the dataset, not from texts "
        "that a model generates meanwhile";
    group.refuse("lmbda", Shape::number, "0", off_policy);
    group.refuse("seq_kd", Shape::boolean, "false", off_policy);
}

namespace {

using PrecisionGroup = OptionGroup<TrainingSettings>;

// Adds the settings of products in FP8, and those of Accelerate's recipes.
void add_fp8_options(PrecisionGroup& group) {
    group
        .serve("fp8_format", &TrainingSettings::fp8_format,
               "Formats of FP8: e4m3 for all numbers, or hybrid, which has e5m2 for gradients.")
        .but_not({"e5m2"}, "two bits of mantissa are too few for weights; give e4m3 or hybrid");
    group.serve("fp8_recipe", &TrainingSettings::fp8_recipe,
                "Scales of FP8: rowwise, one for each row; tensorwise, one for each tensor, of the "
                "rows that a product multiplies; or delayed, one for each tensor, of its maxima in "
                "earlier steps.");
    group
        .serve("fp8_amax_history_len", &TrainingSettings::fp8_amax_history_len,
               "With fp8_recipe delayed: the steps whose maxima are kept.")
        .at_least(1)
        .at_most(4096);
    group.serve("fp8_amax_compute_algo", &TrainingSettings::fp8_amax_compute_algo,
                "With fp8_recipe delayed: a scale follows from the largest maximum of the history, "
                "or from the one of the step before.");
    group
        .serve("fp8_margin", &TrainingSettings::fp8_margin,
               "With fp8_recipe delayed: a scale is smaller by this power of two.")
        .at_least(0)
        .at_most(64);
    group
        .serve("fp8_backend", &TrainingSettings::fp8_backend,
               "A recipe in Accelerate's words: te means fp8_recipe delayed, and fp8_format hybrid "
               "if none is given; ao changes nothing.")
        .but_not({"msamp"}, "MS-AMP is not served; give ao or te, or leave it out");
    group.alias("fp8_amax_history_length", "fp8_amax_history_len", Shape::integer);
    group.alias("fp8_amax_compute_algorithm", "fp8_amax_compute_algo");
    group.accept("fp8_pad_inner_dim", Shape::boolean, "true",
                 "weights whose sizes are no multiples of 16 have products in bf16");
    group.accept("fp8_enable_fsdp_float8_all_gather", Shape::boolean, "true",
                 "weights are gathered in bf16");
    group.accept("fp8_use_autocast_during_eval", Shape::boolean, "true",
                 "evaluation computes as training does");
    group.refuse("fp8_interval", Shape::integer, "1",
                 "scales are found anew for every step; give 1, or leave it out");
    group
        .refuse("fp8_override_linear_precision", Shape::word, "false,false,true",
                "y and the gradient of x are products in FP8, and gradients of weights in bf16; "
                "give false,false,true, or leave it out")
        .also_harmless({"[false,false,true]", "false,false,false", "[false,false,false]",
                        "(false, false, false)", "(false,false,false)", "(false, false, true)"});
    group.refuse("fp8_use_mxfp8_block_scaling", Shape::boolean, "false",
                 "a scale is one of a row or of a tensor; leave it out");
}

}  // namespace

void add_precision_options(OptionTable& table) {
    OptionGroup group(table, "Precision and memory", &Config::training);
    group
        .serve(
            "mixed_precision", &TrainingSettings::mixed_precision,
            "Type of the computation: bf16, no for fp32, or fp8: bf16 with products of the blocks' "
            "linear layers in FP8. Master weights and moments are fp32.")
        .takes({"fp16"}, "bf16",
               "the run computes in bf16, which needs no loss scaling; its numbers have 8 bits of "
               "mantissa where fp16 has 11");
    group
        .serve(
            "residual_dtype", &TrainingSettings::residual_dtype,
            "Type of the residual stream, the sum to which the branches of all blocks add: null, "
            "the type of the computation; or fp32 beside a computation in bf16, as under "
            "PyTorch's autocast.")
        .but_not({"fp16"}, "fp16 is not served; use fp32 or bf16");
    add_fp8_options(group);
    group.serve("gradient_checkpointing", &TrainingSettings::gradient_checkpointing,
                "Recompute parts of a block in the backward pass instead of keeping them.");
    group
        .serve("activation_policy", &TrainingSettings::activation_policy,
               "Activations that a block keeps: everything, all (norms and the MLP's activation "
               "are computed again), all_but_gate_up (the MLP's first product too), attention "
               "(input and attention output), input; for each block, all:18,attention (the first "
               "18 keep all, the others attention); or auto, as much as the memory has room for. "
               "Without "
               "it and gradient_checkpointing: attention, and on GPUs auto.")
        .suggest({"everything", "all", "all_but_gate_up", "attention", "input", "auto"});
    group.serve(
        "activation_offloading", &TrainingSettings::activation_offloading,
        "Keep saved activations elsewhere: beside a GPU in the host's memory, else in a file "
        "in offload_dir, or in offload_optimizer_nvme_path, or in output_dir.");
    group.serve("cuda_graphs", &TrainingSettings::cuda_graphs,
                "Record what a GPU does for a block, and replay it for batches of the same shape: "
                "for small models, whose work is over before more of it is given. Takes the memory "
                "of a batch's activations for good.");

    group.alias("bf16", "mixed_precision", Shape::boolean,
                {{"true", "bf16"}, {"false", "no"}, {"auto", "bf16"}});  // every device has it
    group.alias("fp8", "mixed_precision", Shape::boolean, {{"true", "fp8"}, {"false", "bf16"}});
    group.alias("activation_checkpointing", "gradient_checkpointing", Shape::boolean);
    group.alias("fsdp_activation_checkpointing", "gradient_checkpointing", Shape::boolean);
    group.alias("fsdp_activation_checkpointing_offload", "activation_offloading", Shape::boolean);
    group.block("gradient_checkpointing_kwargs", "Settings of checkpointing as JSON.", {},
                {{"offload", "activation_offloading"}});
    group.block("activation_checkpointing_kwargs", "Settings of checkpointing as JSON.", {},
                {{"offload", "activation_offloading"}});

    const std::string policy = "activation_policy chooses the tensors that are kept";
    for (const auto* name : {"use_reentrant", "selective", "preserve_rng_state", "early_stop"})
        group.accept(name, Shape::boolean, "null", policy);
    group.accept("determinism_check", Shape::word, "null", policy);
    const std::string evaluation = "evaluation computes in the type of training";
    group.accept("bf16_full_eval", Shape::boolean, "false", evaluation);
    group.accept("downcast_bf16", Shape::word, "no", "it concerns TPUs");
    group.alias("fp16", "mixed_precision", Shape::boolean, {{"true", "fp16"}, {"false", ""}});
    group.accept("fp16_full_eval", Shape::boolean, "false", evaluation);
    group.accept_all({{"torch_compile", Shape::boolean},
                      {"torch_compile_backend", Shape::word},
                      {"torch_compile_mode", Shape::word}},
                     "there is no graph to compile: the operations are compiled into the program");
}

}  // namespace ringshard::config
