#include "class_labels.hpp"

#include <algorithm>

namespace ringshard::data {

using text::Value;

ClassLabels ClassLabels::of(const std::string& huggingface) {
    ClassLabels labels;
    const auto about = text::read_json(huggingface);
    const Value* info = about ? about.value().find("info") : nullptr;
    const Value* features = info != nullptr ? info->find("features") : nullptr;
    if (features == nullptr || features->object() == nullptr) return labels;
    for (const auto& [column, feature] : *features->object())
        if (const Value* names = feature.find("names");
            names != nullptr && names->list() != nullptr)
            labels.lists_.emplace_back(column + "_names", *names);
    return labels;
}

void ClassLabels::add(Value& row, const std::vector<std::string>& wanted) const {
    for (const auto& [name, list] : lists_)
        if (std::ranges::find(wanted, name) != wanted.end() && row.find(name) == nullptr)
            row.set(name, list);
}

}  // namespace ringshard::data
