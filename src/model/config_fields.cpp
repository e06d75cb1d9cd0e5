#include "ringshard/model/config_fields.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "reading/architecture.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

// Fields that functions of reading/ read.
constexpr const char* read_fields =
    "architectures attention_bias attention_dropout attn_pdrop conv_kernel decoder_sparse_step "
    "embd_pdrop embedding_dropout first_k_dense_replace head_dim hidden_act hidden_dropout "
    "hidden_size hybrid_override_pattern initializer_range intermediate_size is_causal "
    "kv_lora_rank "
    "layer_types layers_block_type mamba_conv_bias mamba_d_conv mamba_d_head mamba_d_ssm "
    "mamba_d_state mamba_dt_min mamba_expand mamba_head_dim mamba_hidden_act mamba_n_groups "
    "mamba_n_heads mamba_norm_before_gate mamba_num_heads mamba_proj_bias mamba_rms_norm "
    "max_position_embeddings max_window_layers mlp_bias mlp_layer_types mlp_only_layers model_type "
    "moe_intermediate_size n_group n_groups n_routed_experts n_shared_experts norm_topk_prob "
    "num_attention_heads num_experts num_experts_per_tok num_hidden_layers num_key_value_heads "
    "num_local_experts original_max_position_embeddings pad_token_id partial_rotary_factor "
    "q_lora_rank qk_nope_head_dim qk_rope_head_dim quantization_config resid_pdrop "
    "residual_dropout rms_norm_eps rope_parameters rope_scaling rope_theta routed_scaling_factor "
    "router_aux_loss_coef shared_expert_intermediate_size sliding_window sliding_window_pattern "
    "ssm_state_size text_config tie_word_embeddings time_step_limit time_step_min topk_group "
    "use_bias use_conv_bias use_sliding_window v_head_dim vocab_size";

// Fields of transformers' classes, and of releases, that no text model is computed with.
constexpr const char* other_fields =
    "_attn_implementation _attn_implementation_autoset _name_or_path _sliding_window_pattern "
    "add_cross_attention attn_implementation attn_implementation_autoset audio_config "
    "audio_token_id auto_map aux_loss_alpha boa_token_id eoa_token_id eoa_token_index "
    "base_model_ep_plan base_model_fsdp_plan base_model_pp_plan base_model_tp_plan block_dim "
    "block_mlp_init_scale block_norm_eps block_out_init_scale block_use_swiglu "
    "block_use_xavier_init boi_token_id boi_token_index bos_token_id cache_implementation "
    "chunk_size chunk_size_feed_forward classifier_dropout conv_dim conv_dim_out "
    "conv_use_xavier_init cross_attention_hidden_size decoder_start_token_id dtype eod_token_id "
    "eoi_token_id eoi_token_index eos_token_id ep_size expand finetuning_task "
    "gradient_checkpointing id2label ignore_index image_seq_length image_token_id "
    "image_token_index is_decoder is_encoder_decoder label2id mamba_chunk_size "
    "mamba_ssm_cache_dtype mask_token_id mm_tokens_per_image moe_layer_freq "
    "moe_shared_expert_overlap mtp_hybrid_override_pattern mtp_layer_types mtp_layers_block_type "
    "mtp_loss_scaling_factor mtp_mlp_layer_types mtp_num_hidden_layers multimodal_projector_bias "
    "n_ctx num_heads "
    "num_labels num_logits_to_keep num_mtp_layers num_nextn_predict_layers output_attentions "
    "output_hidden_states prefix pretraining_tp problem_type projector_hidden_act qk_head_dim "
    "rescale_prenorm_residual residual_in_fp32 return_dict return_dict_in_generate sep_token_id "
    "seq_aux spatial_merge_size summary_activation summary_first_dropout summary_proj_to_labels "
    "summary_type summary_use_proj task_specific_params tie_encoder_decoder time_step_floor "
    "time_step_max tokenizer_class torch_dtype torchscript transformers.js_config "
    "transformers_version unk_token_id use_cache use_mamba_kernels use_pos_enc use_return_dict "
    "video_token_id vision_config vision_end_token_id vision_feature_layer "
    "vision_feature_select_strategy vision_start_token_id vision_token_id";

// All fields that models are made by.
const std::set<std::string>& fields_of_models() {
    static const std::set<std::string> all = [] {
        const std::vector<std::string> shared = split(read_fields, ' ');
        std::set<std::string> names(shared.begin(), shared.end());
        for (const Architecture& one : all_architectures())
            names.insert(one.more.fields.begin(), one.more.fields.end());
        return names;
    }();
    return all;
}

bool is_known(const std::string& name) {
    static const std::vector<std::string> others = split(other_fields, ' ');
    return fields_of_models().contains(name) || std::ranges::find(others, name) != others.end();
}

void add_unknown(const json& fields, const std::string& prefix, std::vector<std::string>& found) {
    for (const auto& [name, value] : fields.items())
        if (!is_known(name)) found.push_back(prefix + name);
}

}  // namespace

bool is_model_field(const std::string& name) { return is_known(name); }

std::string nearest_model_field(const std::string& name) {
    return nearest_name(name, {fields_of_models().begin(), fields_of_models().end()});
}

std::vector<std::string> unknown_fields(const std::filesystem::path& config_json) {
    const auto text = read_file(config_json);
    const json content = json_or_null<json>(text.value_or(""));
    if (!content.is_object()) return {};
    std::vector<std::string> found;
    add_unknown(content, "", found);
    if (content.contains("text_config") && content["text_config"].is_object())
        add_unknown(content["text_config"], "text_config.", found);
    return found;
}

std::string warn_of_unknown_fields(const std::filesystem::path& config_json) {
    const std::vector<std::string> unknown = unknown_fields(config_json);
    if (unknown.empty()) return {};
    const std::vector<std::string> known(fields_of_models().begin(), fields_of_models().end());
    std::vector<std::string> near;
    for (const std::string& name : unknown) {
        const std::string nearest = nearest_name(name.substr(name.rfind('.') + 1), known);
        if (!nearest.empty()) near.push_back(nearest);
    }
    return format_text(
        "{}: {}: no model of this program has such a field, in transformers neither; it changes "
        "nothing{}",
        config_json.string(), join(unknown, ", "),
        near.empty() ? "" : format_text(" (fields that are read: {})", join(near, ", ")));
}

}  // namespace ringshard::model
