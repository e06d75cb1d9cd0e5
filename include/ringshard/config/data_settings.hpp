#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringshard::config {

enum class PackingStrategy { bfd, bfd_split, wrapped };
enum class PackingScope { batch, global };
enum class TruncationMode { keep_start, keep_end, drop };
enum class SamplingStrategy { random, sequential, group_by_length };
enum class SampleBy { line, document };
enum class StoppingStrategy { first_exhausted, all_exhausted };

struct DataSettings {
    std::string dataset_name;
    std::string dataset_config;
    std::string dataset_train_split = "train";
    std::string dataset_test_split = "test";
    std::string eval_dataset_name;
    std::string datasets;  // JSON: a mixture
    StoppingStrategy mixture_stopping_strategy = StoppingStrategy::first_exhausted;
    std::optional<double> mixture_temperature;
    std::optional<int64_t> mixture_seed;
    std::string system_prompt;
    std::string row_template;        // JSON, Jinja or a file
    std::string template_variables;  // JSON
    std::string column_map;          // JSON: column names of this program, with the dataset's names
    std::string role_key;            // keys of messages; empty: role and content
    std::string content_key;
    std::string roles;  // JSON: roles of the chat template, with the dataset's names
    SampleBy sample_by = SampleBy::line;
    bool text_only = false;
    std::optional<double> test_split_size;
    std::string dataset_text_field = "text";
    std::optional<int64_t> max_length = 1024;
    int64_t min_length = 0;
    bool dataset_exact_deduplication = false;
    TruncationMode truncation_mode = TruncationMode::keep_start;
    bool shuffle_dataset = false;
    bool skip_prepare_dataset = false;
    bool packing = false;
    PackingStrategy packing_strategy = PackingStrategy::bfd;
    PackingScope packing_scope = PackingScope::batch;
    std::optional<bool> eval_packing;
    bool padding_free = false;
    std::string pad_to_multiple_of = "auto";
    std::optional<bool> completion_only_loss;
    bool assistant_only_loss = false;
    std::vector<std::string> roles_to_train;
    bool train_on_last_turn_only = false;
    std::vector<std::string> mask_reasoning;  // true, false, or the begin and end markers
    std::string loss_scale;      // ms-swift's rules, such as last_round+ignore_empty_think
    std::string agent_template;  // empty: the chat template writes tools
    SamplingStrategy train_sampling_strategy = SamplingStrategy::random;
    bool dataloader_drop_last = false;
    int64_t skip_bad_rows = 0;
    bool strict_length = false;
    int64_t inspect_rows = 3;    // of each dataset
    std::string data_cache_dir;  // empty: next to the cache of the Hugging Face tools
};

}  // namespace ringshard::config
