#pragma once

#include "foreign_import.hpp"

namespace ringshard::config {

// Reads the datasets of ms-swift, whose command for Megatron has the same ones.
void read_swift_data(ForeignImport& import);
// Reads what a head of labels is for.
void read_swift_task(ForeignImport& import);
// Reads the keys that say which messages are learned, and the template.
void read_swift_template(ForeignImport& import);
// Whether rows are pairs of answers, of `swift rlhf`.
inline bool swift_learns_pairs(const ForeignImport& import) {
    const std::string type = import.text("rlhf_type");
    return type == "dpo" || type == "cpo" || type == "simpo" || type == "orpo" || type == "rm";
}
// Whether rows are single answers that are desirable or not.
inline bool swift_judges(const ForeignImport& import) { return import.text("rlhf_type") == "kto"; }
// Whether rows have labels.
inline bool swift_classifies(const ForeignImport& import) {
    return import.text("task_type") == "seq_cls";
}
// Returns false for rows that are joined without the marks of a conversation, as in `swift pt`.
bool swift_uses_template(const ForeignImport& import);
// Reads what is left: added tokens, thoughts, saves.
void read_swift_rest(ForeignImport& import);
// Reads the adapter; `usual`: the tuner if the recipe names none.
void read_swift_tuner(ForeignImport& import, const std::string& usual);

}  // namespace ringshard::config
