#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "foreign_file.hpp"

namespace ringshard::config {

class ForeignImport;

enum class KeyMeaning {
    sets,     // `text` is the setting
    idle,     // `text` says why the key changes nothing here
    refused,  // `text` says why the key is not served, and what to do instead
    read,     // the trainer's own function reads it
};

// A key of another trainer's files.
struct ForeignKey {
    std::string_view path;  // "fsdp_config.version"; "wandb*" covers all that begin so
    KeyMeaning meaning;
    std::string_view text{};
    // sets: "theirs=ours;..." for values that have another name here; "theirs=" asks for nothing.
    // refused: "value;..." that ask for nothing, besides null, false, 0 and what is empty.
    std::string_view values{};
};

// A setting whose default differs in the other trainer.
struct ForeignDefault {
    std::string_view setting;
    std::string_view value;
};

struct ForeignTrainer {
    std::string_view name;
    std::vector<std::span<const ForeignKey>> tables;  // what stands in the first one counts first
    std::span<const ForeignDefault> defaults;
    // Reads the keys that the table does not translate by itself.
    void (*translate)(ForeignImport&);
};

const ForeignTrainer& axolotl();
const ForeignTrainer& llama_factory();
const ForeignTrainer& llama_factory_v1();
const ForeignTrainer& ms_swift();
const ForeignTrainer& megatron_swift();
const ForeignTrainer& automodel();
const ForeignTrainer& simpo();

// Returns the trainer whose keys the file has, or null.
const ForeignTrainer* recognise(const ForeignFile& file);

}  // namespace ringshard::config
