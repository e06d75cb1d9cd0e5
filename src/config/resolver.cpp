#include "resolver.hpp"

#include <algorithm>

#include "deepspeed_file.hpp"
#include "enum_names.hpp"
#include "ringshard/base/utf8.hpp"
#include "settings_file.hpp"
#include "value_text.hpp"

namespace ringshard::config {

namespace {

// Returns true if the statement is of the deepspeed_config of an Accelerate file whose
// distributed_type is NO: Accelerate does not read it then.
bool is_void(const Statement& statement, const Statements& all) {
    if (statement.block != "deepspeed_config" && statement.name != "deepspeed_config") return false;
    return std::ranges::any_of(all, [&](const Statement& other) {
        return other.name == "distributed_type" && other.block.empty() &&
               lower_case(trim(other.text)) == "no" &&
               other.origin.strength == statement.origin.strength;
    });
}

}  // namespace

void Resolver::take(const Statements& statements) {
    const auto is_mixer = [](const Statement& statement) {
        return statement.name == "dataset_mixer" && !is_null(statement.text);
    };
    const bool has_mixer = std::ranges::any_of(statements, is_mixer);
    for (const Statement& statement : statements) {
        if (is_mixer(statement))
            take_mixer(statement, statements);
        else if (statement.name == "dataset_splits" && has_mixer)
            continue;
        else if (statement.name == "dataset_splits" && !is_null(statement.text))
            result_.problems.push_back(
                complaint(statement, "has a meaning beside dataset_mixer only: leave it out"));
        else if (!is_void(statement, statements))
            take(statement);
        else if (!is_null(statement.text))
            add_idle("deepspeed_config", "distributed_type is NO");
    }
}

void Resolver::take(const Statement& statement) {
    if (!is_utf8(statement.name) || !is_utf8(statement.text))
        return result_.problems.push_back(
            complaint(statement, "is not UTF-8: give it, or the file it names, another name"));
    if (statement.text.find('\0') != std::string::npos)
        return result_.problems.push_back(
            complaint(statement, "holds a NUL character, at which file names end: take it out"));
    if (statement.block == "deepspeed_config" && statement.text == "auto") return;
    if (statement.name == "fsdp") return take_fsdp_words(statement);
    FsdpStrategy ignored{};
    if (statement.name == "fsdp_reshard_after_forward" && !read_boolean(statement.text) &&
        !read_value(statement.text, ignored))  // FSDP 1 takes the name of a strategy here
        return assign(*table_.find("fsdp_sharding_strategy"), statement.text, statement);
    const std::string& meant = statement.target.empty() ? statement.name : statement.target;
    if (statement.block.empty())
        if (const Block* block = table_.find_block(meant)) return open(*block, statement);
    if (!statement.target.empty()) return take(statement, statement.target);
    if (statement.block == "dataset_mixture" && statement.name == "datasets")
        return take_mixture(statement);
    const std::string name = name_inside_block(statement);
    if (is_collected(statement, name)) return collect(statement);
    const Block* block = table_.find_block(name);  // deepspeed_config_file inside deepspeed_config
    if (table_.find(name) == nullptr && block != nullptr) return open(*block, statement);
    take(statement, name);
}

void Resolver::open(const Block& block, const Statement& statement) {
    if (!block.is_deepspeed_file) return take(open_block(block, statement, result_.problems));
    const auto content = read_block(statement, result_.problems);
    if (!content) return;
    DeepSpeedFile file = read_deepspeed_file(block, *content, result_.problems);
    take(file.statements);
    for (const auto& [path, reason] : file.idle) add_idle(path, reason);
    decays_everything_there_ = decays_everything_there_ || file.has_optimizer;
}

// Takes the statement as one about the setting or alias `name`.
void Resolver::take(const Statement& statement, const std::string& name) {
    if (const Option* option = table_.find(name)) return assign(*option, statement.text, statement);
    const Alias* alias = table_.find_alias(name);
    if (alias == nullptr) return report_unknown(statement, name);
    if (!alias->note.empty())
        result_.notes.push_back(format_text("{} {}", alias->name, alias->note));

    std::string meaning = statement.text;
    if (!alias->values.empty()) {
        if (is_null(meaning)) return;
        const auto read = read_boolean(meaning);
        const auto word = alias->values.find(lower_case(trim(meaning)));
        if (!read && word == alias->values.end()) {
            result_.broken.insert(alias->target);
            return result_.problems.push_back(complaint(statement, "must be true or false"));
        }
        meaning = read ? alias->values.at(*read ? "true" : "false") : word->second;
        if (meaning.empty()) return;  // this value has no effect
    }
    double number = 0;
    if (alias->below && !read_value(meaning, number) && number >= *alias->below) {
        result_.broken.insert(alias->target);
        return result_.problems.push_back(complaint(
            statement,
            format_text("must be below {}: {}", shortest(*alias->below), alias->why_below)));
    }
    assign(*table_.find(alias->target), meaning, statement);
}

// Takes transformers' "full_shard auto_wrap offload", or a plain true.
void Resolver::take_fsdp_words(const Statement& statement) {
    if (is_null(statement.text) || read_boolean(statement.text) == false) return;
    const auto say = [&](const char* name, const std::string& value) {
        assign(*table_.find(name), value, {name, value, statement.origin, "fsdp"});
    };
    say("distributed_type", "FSDP");
    if (read_boolean(statement.text)) return;
    std::vector<std::string> words;  // "a b", or a list in a file
    if (const Rule broken = read_value(statement.text, words))
        return result_.problems.push_back(complaint(statement, *broken));
    for (const std::string& word : words) {
        if (word == "auto_wrap") continue;
        FsdpStrategy ignored{};
        if (word == "offload")
            say("offload_param_device", "cpu");
        else if (!read_value(word, ignored))
            say("fsdp_sharding_strategy", word);
        else
            result_.problems.push_back(complaint(
                statement, format_text("'{}' is not one of full_shard, shard_grad_op, no_shard, "
                                       "hybrid_shard, hybrid_shard_zero2, offload, auto_wrap",
                                       word)));
    }
}

std::string Resolver::name_inside_block(const Statement& statement) const {
    const Block* block = table_.find_block(statement.block);
    if (block == nullptr) return statement.name;
    const auto meant = block->names.find(statement.name);
    if (meant != block->names.end()) return meant->second;
    const std::string full = block->prefix + statement.name;
    const bool has_full = table_.find(full) != nullptr || table_.find_alias(full) != nullptr;
    return has_full || table_.find_refused_family(full) != nullptr ? full : statement.name;
}

void Resolver::assign(const Option& option, const std::string& value, const Statement& statement) {
    const auto refuse = [&](const std::string& reason) {
        result_.broken.insert(option.name);
        result_.problems.push_back(complaint(statement, format_text("is not served: {}", reason)));
    };
    for (const auto& [refused, reason] : option.refused_values)
        if (lower_with_underscores(value) == lower_with_underscores(refused)) return refuse(reason);
    if (option.shape == Shape::list) {
        std::vector<std::string> words;
        read_value(value, words);
        for (const std::string& word : words)
            if (const auto found = option.refused_values.find(word);
                found != option.refused_values.end())
                return refuse(format_text("{}: {}", word, found->second));
    }
    if (option.treatment == Treatment::refused) {
        if (!asks_for_nothing(option, value)) refuse(option.reason);
        return;
    }
    assignments_.push_back({&option, take_replacements(option, value, statement), statement});
}

void Resolver::report_unknown(const Statement& statement, const std::string& name) {
    if (const RefusedFamily* family = table_.find_refused_family(name)) {
        result_.problems.push_back(
            complaint(statement, format_text("is not served: {}", family->reason)));
        return;
    }
    const std::string nearest = nearest_name(statement.name, table_.all_names());
    const std::string where = statement.block.empty() ? "" : " in " + statement.block;
    result_.problems.push_back(complaint(
        statement,
        format_text("there is no setting of this name{}{}{}{}", where,
                    nearest.empty() ? "; `trainer --help all` lists them" : "; did you mean ",
                    nearest, nearest.empty() ? "" : "?")));
}

// Reports different values of equal strength for one setting (`bf16: true` and `mixed_precision:
// no`), and a stronger value that differs from a binding one.
void Resolver::report_contradictions() {
    for (size_t i = 0; i < assignments_.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
            const Assignment& a = assignments_[j];
            const Assignment& b = assignments_[i];
            const bool have_to_agree =
                strength(a) == strength(b) || (strength(a) < strength(b) ? a : b).statement.binds;
            if (a.option != b.option || !have_to_agree) continue;
            Config x;
            Config y;
            const Option& option = *a.option;
            const bool is_served = option.treatment == Treatment::served;
            if (!is_served || option.read(a.text, x) || option.read(b.text, y)) continue;
            if (option.write(x) == option.write(y)) continue;
            result_.broken.insert(option.name);
            result_.problems.push_back(
                {ExitCode::settings,
                 format_text("{} = {} [{}] and {} = {} [{}] contradict each other: both set {}{}",
                             a.statement.name, a.statement.text, a.statement.origin.place,
                             b.statement.name, b.statement.text, b.statement.origin.place,
                             option.name,
                             a.statement.binds || b.statement.binds
                                 ? "; leave one out, or write \"auto\" in the DeepSpeed file"
                                 : "; leave one out")});
        }
    }
}

void Resolver::set(const Assignment& assignment) {
    const Option& option = *assignment.option;
    Settings& settings = result_.settings;
    if (option.treatment == Treatment::served) {
        Config ignored;
        const bool is_open = !option.can_be_null && is_null(assignment.text) &&
                             option.read(assignment.text, ignored);
        if (is_open) return;  // null for a setting that has no null
        const auto break_off = [&](const std::string& rule) {
            result_.broken.insert(option.name);
            result_.problems.push_back(complaint(assignment.statement, rule));
        };
        if (const Rule broken = option.read(assignment.text, settings.values))
            return break_off(*broken);
        if (const auto number = read_number(assignment.text)) {
            const bool is_low =
                option.minimum &&
                (option.minimum_excluded ? *number <= *option.minimum : *number < *option.minimum);
            if (is_low)
                return break_off(format_text("must be {}{}",
                                             option.minimum_excluded ? "above " : "at least ",
                                             shortest(*option.minimum)));
            const bool is_high =
                option.maximum &&
                (option.maximum_excluded ? *number >= *option.maximum : *number > *option.maximum);
            if (is_high)
                return break_off(format_text("must be {}{}",
                                             option.maximum_excluded ? "below " : "at most ",
                                             shortest(*option.maximum)));
        }
    }
    const std::string written =
        option.treatment == Treatment::served ? option.write(settings.values) : assignment.text;
    settings.given[option.name] = {written, assignment.statement.origin};
}

void Resolver::apply() {
    drop_bf16_beside_fp16();
    report_contradictions();
    std::stable_sort(
        assignments_.begin(), assignments_.end(),
        [](const Assignment& a, const Assignment& b) { return strength(a) < strength(b); });
    for (const Assignment& assignment : assignments_) {
        const Assignment* last = strongest(assignment.option->name);
        if (last == &assignment) set(assignment);
    }
    shard_over_ranks_of_other_splits();
}

void Resolver::add_idle(const std::string& name, const std::string& reason) {
    auto entry = std::find_if(idle_.begin(), idle_.end(),
                              [&](const auto& known) { return known.first == reason; });
    if (entry == idle_.end()) entry = idle_.insert(entry, {reason, {}});
    auto& names = entry->second;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// Writes one line per reason. Omits settings that only a built-in profile gives.
void Resolver::report_accepted() {
    report_replacements();
    for (const Assignment& assignment : assignments_) {
        const Option& option = *assignment.option;
        if (option.is_replaced) continue;
        const bool is_from_builtin = assignment.statement.origin.place.starts_with("profile ");
        if (option.treatment == Treatment::accepted && !is_from_builtin)
            add_idle(option.name, option.reason);
    }
    for (const auto& [reason, names] : idle_)
        result_.notes.push_back(format_text("{}: not needed, {}", join(names, ", "), reason));
    if (decays_everything_there_ && result_.settings.values.training.weight_decay > 0)
        result_.notes.push_back(
            "weight_decay: the optimizer of a DeepSpeed file decays biases and norms as well; here "
            "only matrices decay, as with TRL's own optimizer");
}

}  // namespace ringshard::config
