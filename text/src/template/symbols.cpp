#include "binder.hpp"

namespace ringshard::text::jinja {

const Variable* Symbols::find(const std::string& name) const {
    for (const Symbols* scope = this; scope != nullptr; scope = scope->parent_)
        if (const auto found = scope->known_.find(name); found != scope->known_.end())
            return &found->second;
    return nullptr;
}

void Symbols::define(const std::string& name, Load load) {
    const auto [place, is_new] = slots_->try_emplace(name, function_->slots);
    if (is_new) ++function_->slots;
    known_[name] = {function_, place->second};
    loads_[place->second] = std::move(load);
}

void Symbols::read(const std::string& name) {
    if (find(name) == nullptr) define(name, {Load::From::outside, name, {}});
}

void Symbols::set(const std::string& name) {
    sets_.insert(name);
    if (known_.contains(name)) return;
    const Variable* outer = parent_ != nullptr ? parent_->find(name) : nullptr;
    if (outer != nullptr) {
        define(name, {Load::From::variable, name, *outer});
    } else {
        define(name, {Load::From::nothing, name, {}});
    }
}

void Symbols::parameter(const std::string& name) {
    sets_.insert(name);
    define(name, {Load::From::parameter, name, {}});
}

void Symbols::read_all(Expression& expression) {
    if (const auto* name = dynamic_cast<const Name*>(&expression)) read(name->name);
    expression.each_child([this](Expression& child) { read_all(child); });
}

void Symbols::set_all(const Expression& target) {
    if (const auto* name = dynamic_cast<const Name*>(&target)) set(name->name);
    if (const auto* member = dynamic_cast<const SpaceMember*>(&target)) read(member->name);
    if (const auto* names = dynamic_cast<const Sequence*>(&target))
        for (const auto& item : names->items) set_all(*item);
}

void Symbols::parameter_all(const Expression& target) {
    if (const auto* name = dynamic_cast<const Name*>(&target)) parameter(name->name);
    if (const auto* names = dynamic_cast<const Sequence*>(&target))
        for (const auto& item : names->items) parameter_all(*item);
}

void Symbols::declare(const Body& body) {
    for (const auto& statement : body) statement->declare(*this);
}

void Symbols::join(const std::vector<Symbols>& branches) {
    std::set<std::string> newly_set;
    for (const Symbols& branch : branches)
        for (const std::string& name : branch.sets_)
            if (!sets_.contains(name)) newly_set.insert(name);
    for (const Symbols& branch : branches) {
        for (const auto& [name, variable] : branch.known_) known_[name] = variable;
        for (const auto& [slot, load] : branch.loads_) loads_[slot] = load;
        sets_.insert(branch.sets_.begin(), branch.sets_.end());
    }
    for (const std::string& name : newly_set) {
        const Variable* outer = parent_ != nullptr ? parent_->find(name) : nullptr;
        loads_[known_.at(name).slot] = outer != nullptr ? Load{Load::From::variable, name, *outer}
                                                        : Load{Load::From::outside, name, {}};
    }
}

void Output::declare(Symbols& symbols) {
    for (const auto& part : parts) symbols.read_all(*part);
}

void If::declare(Symbols& symbols) {
    // The first condition belongs to the scope, every other one to its branch.
    symbols.read_all(*branches.front().first);
    std::vector<Symbols> parts;
    parts.push_back(symbols.branch());
    parts.back().declare(branches.front().second);
    parts.push_back(symbols.branch());
    for (size_t i = 1; i < branches.size(); ++i) {
        Symbols& elifs = parts.back();
        elifs.read_all(*branches[i].first);
        Symbols inside = elifs.branch();
        inside.declare(branches[i].second);
        elifs.join({inside});
    }
    parts.push_back(symbols.branch());
    parts.back().declare(otherwise);
    symbols.join(parts);
}

void For::declare(Symbols& symbols) { symbols.read_all(*over); }

void Set::declare(Symbols& symbols) {
    symbols.read_all(*value);
    symbols.set_all(*target);
}

void SetBlock::declare(Symbols& symbols) { symbols.set_all(*target); }

void Macro::declare(Symbols& symbols) { symbols.set(macro.name); }

void CallBlock::declare(Symbols& symbols) { symbols.read_all(*call); }

void Scoped::declare(Symbols& symbols) {
    if (kind == Kind::filter) symbols.read_all(*filter);
    for (const auto& [name, value] : variables) symbols.read_all(*value);
}

}  // namespace ringshard::text::jinja
