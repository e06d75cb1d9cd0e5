#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_adapter_options(OptionTable& table) {
    OptionGroup group(table, "Model", &Config::adapter);
    group
        .serve("use_peft", &AdapterSettings::use_peft,
               "Train low-rank adapters (LoRA) beside the frozen model; the result is an adapter "
               "that PEFT loads.")
        .shapes_loss_if_set();
    group
        .serve("lora_r", &AdapterSettings::lora_r,
               "Rank of the adapters: A is [r, in], B is [out, r].")
        .at_least(1)
        .shapes_loss_if_set();
    group
        .serve("lora_alpha", &AdapterSettings::lora_alpha,
               "The update of a weight is lora_alpha / lora_r x B A.")
        .above(0)
        .shapes_loss_if_set();
    group
        .serve("lora_dropout", &AdapterSettings::lora_dropout,
               "Probability with which an input of A is dropped in training.")
        .at_least(0)
        .below(1)
        .shapes_loss_if_set();
    group
        .serve("lora_target_modules", &AdapterSettings::lora_target_modules,
               "Linear layers that get an adapter: names such as q_proj,v_proj, or one regular "
               "expression of the whole name, or all-linear. By default PEFT's choice for the "
               "model, q_proj and v_proj.")
        .shapes_loss_if_set();
    group
        .serve("lora_target_parameters", &AdapterSettings::lora_target_parameters,
               "Parameters that get an adapter: ends of names such as mlp.experts.gate_up_proj and "
               "mlp.experts.down_proj, of all experts of a block, or mlp.gate.weight, the router.")
        .shapes_loss_if_set();
    group
        .serve("lora_modules_to_save", &AdapterSettings::lora_modules_to_save,
               "Modules that are trained whole and stored with the adapter, such as lm_head.")
        .shapes_loss_if_set();
    group
        .serve("exclude_modules", &AdapterSettings::exclude_modules,
               "Linear layers of lora_target_modules that get no adapter, PEFT's "
               "LoraConfig.exclude_modules: names, or one regular expression of the whole name.")
        .shapes_loss_if_set();
    group
        .serve("layers_to_transform", &AdapterSettings::layers_to_transform,
               "Blocks, from 0, whose layers of lora_target_modules get an adapter, PEFT's "
               "LoraConfig.layers_to_transform; by default all of them.")
        .shapes_loss_if_set();
    group
        .serve(
            "layers_pattern", &AdapterSettings::layers_pattern,
            "Name of the list of blocks for layers_to_transform, PEFT's "
            "LoraConfig.layers_pattern, such as layers; another name than the model's is refused.")
        .shapes_loss_if_set();
    group
        .serve_json("rank_pattern", &AdapterSettings::rank_pattern,
                    "Other ranks than lora_r, by a regular expression for the end of a layer's "
                    "name, PEFT's LoraConfig.rank_pattern, such as {\"down_proj\": 16}.",
                    KeyOrder::of_text)
        .shapes_loss_if_set();
    group
        .serve_json("alpha_pattern", &AdapterSettings::alpha_pattern,
                    "Other values than lora_alpha, likewise, PEFT's LoraConfig.alpha_pattern.",
                    KeyOrder::of_text)
        .shapes_loss_if_set();
    group
        .serve_json("trainable_token_indices", &AdapterSettings::trainable_token_indices,
                    "Tokens whose rows of the embedding train beside the adapters, PEFT's "
                    "LoraConfig.trainable_token_indices, such as [0, 5]; or lists by module, such "
                    "as {\"embed_tokens\": [0, 5], \"lm_head\": [0, 5]}. Rows of a tied embedding "
                    "are the output layer's too.")
        .shapes_loss_if_set();
    group
        .serve("use_rslora", &AdapterSettings::use_rslora,
               "Scale by lora_alpha / sqrt(lora_r) in place of lora_alpha / lora_r.")
        .shapes_loss_if_set();
    group
        .serve("use_dora", &AdapterSettings::use_dora,
               "Train a magnitude for each row of a weight beside its adapter (DoRA).")
        .shapes_loss_if_set();
    group
        .serve(
            "init_lora_weights", &AdapterSettings::init_lora_weights,
            "First values of A: uniform within 1 / sqrt(in) (true), or normal with the deviation "
            "1 / lora_r (gaussian), and B begins as 0. Or of both, taken out of the weight: pissa, "
            "pissa_niter_N with a randomised decomposition, olora.")
        .shapes_loss_if_set()
        .suggest({"true", "gaussian", "pissa", "pissa_niter_16", "olora"})
        .but_not({"false"}, "B would not begin as 0; PEFT has it for tests: use true or gaussian")
        .but_not({"loftq", "corda", "lora_ga", "eva", "orthogonal", "mica"},
                 "use true, gaussian, pissa or olora");
    group
        .serve("bias", &AdapterSettings::bias,
               "Biases of the model that are trained beside the adapters and stored with them, "
               "PEFT's LoraConfig.bias: none, all, or those of layers that have an adapter.")
        .shapes_loss_if_set();
    group
        .serve("lora_bias", &AdapterSettings::lora_bias,
               "Give B of every adapter a bias that is trained, PEFT's LoraConfig.lora_bias; it "
               "begins as 0.")
        .shapes_loss_if_set();
    group
        .serve("lora_task_type", &AdapterSettings::lora_task_type,
               "PEFT's name of the task, written into adapter_config.json.")
        .but_not({"SEQ_2_SEQ_LM", "TOKEN_CLS", "QUESTION_ANS", "FEATURE_EXTRACTION"},
                 "CAUSAL_LM is served, and SEQ_CLS, with method reward and classification")
        .suggest({"CAUSAL_LM", "SEQ_CLS"});
    group
        .serve("adapter_name_or_path", &AdapterSettings::adapter_name_or_path,
               "Folder of a PEFT adapter to go on from; its adapter_config.json takes the place of "
               "the lora settings.")
        .shapes_loss_if_set();
    group
        .serve("adapters", &AdapterSettings::adapters,
               "File of adapters that train together beside one model, each with settings and data "
               "of its own: a sweep file, whose runs are the adapters.")
        .shapes_loss_if_set();
    group
        .serve("adapters_at_a_time", &AdapterSettings::adapters_at_a_time,
               "Adapters that train together and have rows in one micro-batch; the rows of the "
               "others follow in micro-batches of their own, and memory holds the activations of "
               "one of these. null: all of them.")
        .at_least(1);
    group.serve("merge", &AdapterSettings::merge,
                "For export of a checkpoint with adapters: write the model with the adapters added "
                "to its weights, in place of the adapter.");
}

}  // namespace ringshard::config
