#include <algorithm>
#include <nlohmann/json.hpp>

#include "resolver.hpp"
#include "ringshard/base/parse_json.hpp"
#include "settings_file.hpp"
#include "value_text.hpp"

// Blocks whose members need more than their names.
namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

// A value of a file as JSON: Python's True and None, too, and a text that is nothing else.
ordered_json json_of(const std::string& text) {
    if (text == "True" || text == "False") return text == "True";
    if (text == "None") return nullptr;
    auto parsed = parse_json<ordered_json>(text);
    return parsed ? std::move(parsed.value()) : ordered_json(text);
}

void rename(ordered_json& entry, const char* theirs, const char* ours) {
    if (!entry.contains(theirs)) return;
    entry[ours] = entry[theirs];
    entry.erase(theirs);
}

}  // namespace

bool Resolver::is_collected(const Statement& statement, const std::string& name) const {
    const Block* block = table_.find_block(statement.block);
    return block != nullptr && !block->collects.empty() && table_.find(name) == nullptr &&
           table_.find_alias(name) == nullptr && table_.find_block(name) == nullptr;
}

// Adds a member to the mapping that the block's source gives.
void Resolver::collect(const Statement& statement) {
    const Option* option = table_.find(table_.find_block(statement.block)->collects);
    const auto same_source = [&](const Assignment& assignment) {
        return assignment.option == option && assignment.statement.block == statement.block &&
               strength(assignment) == statement.origin.strength;
    };
    const auto found = std::ranges::find_if(assignments_, same_source);
    ordered_json mapping = ordered_json::object();
    if (found != assignments_.end()) mapping = json_of(found->text);
    mapping[statement.name] = json_of(statement.text);
    if (found == assignments_.end())
        assignments_.push_back({option, mapping.dump(), statement});
    else
        found->text = mapping.dump();
}

// Takes the list of a dataset_mixture. The entries of alignment-handbook and open-r1 have id and
// config, and their weight is the share of the dataset that is drawn, as epochs has it here; they
// shuffle with the seed, 0 by default.
void Resolver::take_mixture(const Statement& statement) {
    const Option& datasets = *table_.find("datasets");
    ordered_json list = json_of(statement.text);
    bool has_ids = false;
    bool has_weights = false;
    for (ordered_json& entry : list) {
        if (!entry.is_object() || !entry.contains("id")) continue;
        has_ids = true;
        rename(entry, "id", "path");
        rename(entry, "config", "name");
        rename(entry, "weight", "epochs");
        has_weights = has_weights || (entry.contains("epochs") && !entry["epochs"].is_null());
    }
    assign(datasets, list.dump(), statement);
    if (!has_ids) return;
    Statement usual = statement;
    usual.name = "dataset_mixture.seed";
    usual.text = "0";
    usual.origin.strength = Strength::builtin;
    assign(*table_.find("mixture_seed"), "0", usual);
}

namespace {

// The splits that a dataset_mixer takes: the strongest dataset_splits says them.
std::vector<std::string> splits_of_mixer(const Statements& beside) {
    const Statement* strongest = nullptr;
    for (const Statement& other : beside)
        if (other.name == "dataset_splits" && !is_null(other.text) &&
            (strongest == nullptr || strongest->origin.strength <= other.origin.strength))
            strongest = &other;
    std::vector<std::string> splits{"train", "test"};
    if (strongest != nullptr) read_value(strongest->text, splits);
    return splits;
}

bool has_word(const std::string& text, const char* word) {
    return text.find(word) != std::string::npos;
}

}  // namespace

// Takes the names of a dataset_mixer: the splits that have "train" in their names are learned, and
// the one that has "test" is evaluated.
void Resolver::take_mixer(const Statement& statement, const Statements& beside) {
    const auto refuse = [&](const std::string& why) {
        result_.problems.push_back(complaint(statement, why));
    };
    const auto content = read_block(statement, result_.problems);
    if (!content) return;
    ordered_json learned = ordered_json::array();
    ordered_json evaluated = ordered_json::array();
    for (const auto& [name, share] : content->mapping.items()) {
        if (share != 1)
            return refuse(
                format_text("takes a part of {}: give dataset_mixture, whose weight takes "
                            "a part",
                            name));
        for (const std::string& split : splits_of_mixer(beside)) {
            if (!has_word(split, "train") && !has_word(split, "test"))
                return refuse(
                    format_text("dataset_splits has {}, and a split has train or test in "
                                "its name",
                                split));
            (has_word(split, "train") ? learned : evaluated)
                .push_back({{"path", name}, {"split", split}});
        }
    }
    if (learned.empty())
        return refuse(
            "there is nothing to learn: it names datasets, each with the share 1, and "
            "dataset_splits a split that has train in its name");
    if (evaluated.size() > 1)
        return refuse("evaluates several datasets: leave one test split in dataset_splits");
    assign(*table_.find("datasets"), learned.dump(), statement);
    if (evaluated.empty()) return;
    const ordered_json& only = evaluated.front();
    assign(*table_.find("eval_dataset_name"), only["path"].get<std::string>(), statement);
    assign(*table_.find("dataset_test_split"), only["split"].get<std::string>(), statement);
}

}  // namespace ringshard::config
