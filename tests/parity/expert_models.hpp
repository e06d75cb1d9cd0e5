#pragma once

#include <filesystem>
#include <fstream>
#include <random>

#include "layout_run.hpp"
#include "mpi_test.hpp"
#include "ringshard/hub/safetensors.hpp"

// Small models with experts, with random weights.
namespace ringshard::test::experts {

constexpr mesh::Cuts zero3{true, true, true, false};
// Tokens of all layouts take several turns, and rows travel in up to eight chunks of a turn.
constexpr model::Chunks in_pieces{.mlp = 100, .rows_of_expert = 4};

inline constexpr const char* qwen3_moe = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
  "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": true,
  "mlp_only_layers": [1], "max_position_embeddings": 256, "tie_word_embeddings": false,
  "router_aux_loss_coef": 0.05, "rope_theta": 10000.0})";

// The other ways to hold experts: as one tensor; turned, with biases; beside a shared MLP, with a
// router of sigmoids, groups and corrections.
inline constexpr const char* granitemoe = R"({
  "model_type": "granitemoe", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 8, "num_experts_per_tok": 2,
  "tie_word_embeddings": false, "router_aux_loss_coef": 0.05})";
inline constexpr const char* gpt_oss = R"({
  "model_type": "gpt_oss", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
  "sliding_window": 16, "router_aux_loss_coef": 0.05, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})";
inline constexpr const char* glm4_moe = R"({
  "model_type": "glm4_moe", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "n_routed_experts": 8, "num_experts_per_tok": 2,
  "moe_intermediate_size": 16, "n_group": 4, "topk_group": 2, "routed_scaling_factor": 1.5})";

// The weights of routers: spread; or 0, so that all tokens choose the same experts, and the others
// have none.
enum class Routing { spread, equal };

class Model {
public:
    explicit Model(Routing routing, const char* config_json = qwen3_moe)
        : config_json_(config_json),
          folder_(std::filesystem::temp_directory_path() /
                  format_text("ringshard-experts-{}",
                              test::world().broadcast(std::to_string(getpid())))) {
        if (test::world().is_root()) write(routing);
        test::world().barrier();
    }
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;
    ~Model() {
        test::world().barrier();
        if (test::world().is_root()) std::filesystem::remove_all(folder_);
    }
    const std::filesystem::path& folder() const { return folder_; }

private:
    void write(Routing routing) const {
        std::filesystem::create_directories(folder_);
        std::ofstream(folder_ / "config.json") << config_json_;
        const auto spec = model::read_model_spec(folder_ / "config.json").value();
        std::vector<hub::TensorEntry> entries;
        for (const shard::FlatUnit& unit : model::make_units(spec, 1))
            for (const shard::PlacedTensor& tensor : unit.tensors())
                entries.push_back({tensor.spec.name, hub::StoredType::fp32, tensor.spec.shape});
        hub::SafetensorsWriter writer(folder_ / "model.safetensors", entries);
        std::mt19937 random(3);
        for (const hub::TensorEntry& entry : entries) {
            size_t count = 1;
            for (const int64_t size : entry.shape) count *= static_cast<size_t>(size);
            const bool is_router = entry.name.ends_with("mlp.gate.weight") ||
                                   entry.name.ends_with("router.weight") ||
                                   entry.name.ends_with("router.layer.weight");
            std::vector<float> values;
            for (size_t i = 0; i < count; ++i)
                values.push_back(
                    value_of(entry, is_router, static_cast<double>(random()) / 4294967296.0));
            if (is_router && routing == Routing::equal) std::ranges::fill(values, 0.0F);
            writer.write(values);
        }
        if (const auto failure = writer.close()) throw Error(*failure);
    }
    // u: uniform in [0, 1).
    static float value_of(const hub::TensorEntry& entry, bool is_router, double u) {
        if (entry.shape.size() == 1) return static_cast<float>(0.8 + 0.4 * u);
        const double spread =
            is_router ? 0.5 : 1.2 / std::sqrt(static_cast<double>(entry.shape.back()));
        return static_cast<float>(spread * (2 * u - 1));
    }

    const char* config_json_;
    std::filesystem::path folder_;
};

}  // namespace ringshard::test::experts
