#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/mesh/mesh_shape.hpp"
#include "ringshard/model/block_spec.hpp"
#include "ringshard/model/rope_spec.hpp"
#include "ringshard/model/stored_form.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// The names of the parameters outside of the blocks, without ".weight", and the prefix of the
// number of a block.
struct ParameterNames {
    std::string embedding = "model.embed_tokens";
    std::string blocks = "model.layers";
    std::string final_norm = "model.norm";
    std::string head = "lm_head";
    // Of a learned row for each of max_positions, which is added to that of the token; empty: none.
    std::string positions{};
};

// A second table, with a row for each token and each block: what a block gets of it, it adds to the
// stream behind its other layers (BlockSpec::embedding). To the rows of a token come products of
// the input of the first block, normed for each block by itself. Names of tensors without
// ".weight".
struct LayerEmbeddingsSpec {
    int64_t width = 0;  // of the row for one block
    std::string table = "model.embed_tokens_per_layer";
    std::string projection = "model.per_layer_model_projection";
    std::string norm = "model.per_layer_projection_norm";
};

// A stored scalar: a tensor without dimensions.
struct Constant {
    std::string name;
    float value;
};

// Rows of the frozen embedding and of the frozen head that train beside an adapter.
struct TrainedRowsSpec {
    std::vector<int64_t> embedding{};
    std::vector<int64_t> head{};
    bool head_has_those_of_embedding = false;  // of a tied model

    bool empty() const { return embedding.empty() && head.empty(); }
};

// What PEFT does by itself in models of a class.
struct PeftRules {
    std::vector<std::string> targets{};  // the layers of an adapter that names none
    bool converts_experts = false;       // adapts all experts of a block as one parameter
};

// A head of a few numbers for a document, its scores, in place of that of the vocabulary.
struct ScoreHead {
    int64_t count;         // of the numbers
    std::string replaced;  // the module of the head of the vocabulary, which files may hold
    std::optional<uint64_t> drawn_by{};  // the key of its first numbers, if no file holds them
};

// A model as config.json describes it, with the decisions of a run.
struct ModelSpec {
    std::string architecture;
    PeftRules peft{};
    int64_t vocabulary = 0;         // rows of the embedding and of a head without scores
    int64_t stored_vocabulary = 0;  // and in the model's files: tokens may be added
    int64_t width = 0;              // hidden_size
    std::vector<BlockSpec> blocks;  // at least one; all have the same heads, and as many experts
    bool tied = false;              // the head is the embedding
    NormForm norm{};                // of the final norm
    ParameterNames names{};
    std::optional<LayerEmbeddingsSpec> layer_embeddings{};
    bool has_head_bias = false;
    std::optional<ScoreHead> scores{};
    std::vector<RopeSpec> ropes;              // of which each block names one
    std::optional<QueryScale> query_scale{};  // by position
    double embedding_multiplier = 1;
    bool rounds_embedding_multiplier = false;  // to the type of the computation
    double logits_multiplier = 1;
    double logits_cap = 0;  // cap * tanh(logits / cap); 0: none
    // transformers' embedding never learns this token, wherever it stands.
    std::optional<int64_t> padding_token;
    // The share of the loss that balances the experts in the loss of training; 0: none.
    double router_aux_loss_coef = 0;
    bool has_router_aux_loss = false;  // it is computed for this architecture
    double router_loss_left_out = 0;   // a share that transformers takes, of a loss that is not
    double initializer_range = 0.02;
    // Initial values of the last matrices of layers are drawn from this part of the range.
    double initial_part_of_outputs = 1;
    int64_t max_positions = 0;
    std::string config_json;  // of this model: the file's content, corrected where it differs
    // The model is the text model of a wrapped one, whose other tensors pass through unchanged.
    bool is_wrapped = false;
    // The field of config.json that describes it; empty where its fields lie at the top.
    std::string text_config;
    StoredForm stored_form{};  // of the matrices in its files
    // Untrained scalars that every model of the architecture stores as tensors.
    std::vector<Constant> constants{};
    // Files may hold blocks behind the last one, which are no part of the model.
    bool ignores_further_blocks = false;
    // Parts of names of tensors, and what some files have in their place.
    std::vector<std::pair<std::string, std::string>> other_names{};
    std::set<std::string> frozen{};                    // tensors that a run does not train
    std::map<std::string, size_t> update_rules{};      // of tensors: shard::ParameterGroup's
    shard::Codec frozen_form = shard::Codec::compute;  // of the frozen matrices of blocks
    // The head begins as the embedding, which alone is in the files: one of the two is trained
    // beside an adapter.
    bool reads_head_from_embedding = false;
    // Of the layers outside of the blocks, by their names in files: as many as each block has.
    std::vector<NamedAdapter> adapters{};
    TrainedRowsSpec trained_rows{};

    // Whether the tensor is a table of embeddings, whose rows are of tokens.
    bool is_table(const std::string& tensor) const;
    // Whether the tensor has a row for each token: a table, and the head without scores.
    bool has_row_for_each_token(const std::string& tensor) const;
    // The shape of a tensor in the model's files, which may have fewer rows for tokens.
    std::vector<int64_t> stored_shape(const shard::TensorSpec& tensor) const;
    bool has_adapters() const { return !adapters.empty(); }
    // The layers that a learner adapts, in blocks and outside of them, by their names in files.
    std::map<std::string, AdapterSpec> layers_of(size_t learner) const;
    // Whether some learner adapts a layer in this way.
    bool any_adapter(const std::function<bool(const AdapterSpec&)>& is_so) const;
    // Gives the model one more learner, which adapts nothing so far, and returns its number.
    size_t add_learner(const std::string& name);
    // Returns to the model alone.
    void remove_learners();
    int64_t head_rows() const { return scores ? scores->count : vocabulary; }
    attention::HeadCounts heads() const;  // of the blocks that attend
    // Why the heads of some block cannot be shared by so many Ulysses ranks; empty if they can.
    std::string why_heads_do_not_split(int64_t ulysses) const;
    // Every number of ranks that can share them, ascending.
    std::vector<int64_t> ulysses_sizes() const;
    // Returns each mask that a block has, in the order of the blocks that have it first.
    std::vector<attention::Mask> masks() const;
    // Returns the tensors that no run trains: corrections of routers, factors of the stream.
    std::set<std::string> never_trained() const;
    // Whether adapters change one of two tied matrices and not the other.
    bool adapters_part_tied_head() const;
    // Those that train on rows of their own: each adapter, or the model.
    int64_t num_learners() const;
    int64_t num_experts() const;  // of a block that has some; 0: none has
    // Whether blocks read rows that other parts of the model have made for them.
    bool blocks_share_rows() const;
    // Why so many ranks cannot share the experts; empty if they can.
    std::string why_experts_do_not_split(int64_t ranks) const;
    // Why the tokens that both answers of a pair begin with are computed for each of them; empty if
    // they need not be.
    std::string why_prompts_are_apart() const;
    // Sets the share of the loss that balances the experts, in config_json too.
    void set_router_aux_loss(double coefficient);
    // Gives the model a head of its own, in config_json too.
    void untie();
    // Gives the embedding and the head another number of rows, in config_json too.
    void resize(int64_t rows);
};

Expected<ModelSpec> read_model_spec(const std::filesystem::path& config_json,
                                    const std::string& overrides = {});
// read_model_spec() in two steps, so that a job reads the file once.
Expected<std::string> read_config_json(const std::filesystem::path& config_json);
// Returns the text of config.json with the fields of `overrides`, a JSON mapping; empty: as it is.
Expected<std::string> override_config(const std::filesystem::path& config_json,
                                      const std::string& text, const std::string& overrides);
Expected<ModelSpec> parse_model_spec(const std::filesystem::path& config_json,
                                     const std::string& text);

// Returns the units of the modules, as ModuleIndex counts them. A tied head is one module with the
// embedding, which comes first. A module whose parameters are frozen in part has two units, the
// trained one first. If several ranks share the experts, those of a block are units of their own;
// so is each of the slices in which they are gathered, which come after the other units of the
// block.
std::vector<shard::FlatUnit> make_units(const ModelSpec& spec, int64_t num_parts,
                                        int64_t ranks_of_experts = 1,
                                        bool experts_in_slices = false,
                                        const shard::ChooseUpdate& choose_update = {});
// Those of a run.
std::vector<shard::FlatUnit> make_units(const ModelSpec& spec, const mesh::MeshShape& shape,
                                        const mesh::Cuts& cuts,
                                        const shard::ChooseUpdate& choose_update = {});
// Whether a run gathers experts in slices: where weights are sharded at rest, and given up after
// the forward pass, and each rank computes with all experts.
bool gathers_slices(const mesh::MeshShape& shape, const mesh::Cuts& cuts);
// In how many slices it gathers the experts of a block, at most; 1: with the block, or there are
// none.
int64_t most_slices_of_experts(const ModelSpec& spec);

// The numbers of the modules: the embedding, the blocks, the head, and if there are embeddings of
// layers their table and the projection to them.
struct ModuleIndex {
    explicit ModuleIndex(const ModelSpec& spec)
        : head(spec.tied ? 0 : spec.blocks.size() + 1),
          layer_table(spec.blocks.size() + (spec.tied ? 1 : 2)),
          layer_projection(layer_table + 1) {}
    size_t embedding = 0;
    size_t head;
    size_t layer_table;
    size_t layer_projection;
    static size_t block(size_t number) { return number + 1; }
};

}  // namespace ringshard::model
