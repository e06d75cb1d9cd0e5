#pragma once

#include <string>
#include <vector>

#include "ringshard/config/resolve.hpp"
#include "statement.hpp"

namespace ringshard::config {

// A statement with a known name: it sets `option`.
struct Assignment {
    const Option* option;
    std::string text;
    Statement statement;
};

// Interprets statements, and gives every setting its strongest value.
class Resolver {
public:
    Resolver(const OptionTable& table, Resolution& result) : table_(table), result_(result) {}

    // Interprets the statements' names, and opens blocks.
    void take(const Statements& statements);
    // Returns the strongest value of a setting so far.
    const Assignment* strongest(const std::string& name) const {
        const Assignment* best = nullptr;
        for (const Assignment& assignment : assignments_)
            if (assignment.option->name == name &&
                (best == nullptr || strength(assignment) >= strength(*best)))
                best = &assignment;
        return best;
    }
    // Records a name without effect, for the report.
    void add_idle(const std::string& name, const std::string& reason);
    void apply();
    void report_accepted();

private:
    // Returns true if a value of a setting that is not served changes nothing.
    static bool asks_for_nothing(const Option& option, const std::string& value);
    static Strength strength(const Assignment& assignment) {
        return assignment.statement.origin.strength;
    }
    void take(const Statement& statement);
    void take(const Statement& statement, const std::string& name);
    void open(const Block& block, const Statement& statement);
    void take_fsdp_words(const Statement& statement);
    void take_mixture(const Statement& statement);
    void take_mixer(const Statement& statement, const Statements& beside);
    bool is_collected(const Statement& statement, const std::string& name) const;
    void collect(const Statement& statement);
    std::string name_inside_block(const Statement& statement) const;
    void assign(const Option& option, const std::string& text, const Statement& statement);
    void report_unknown(const Statement& statement, const std::string& name);
    std::string take_replacements(const Option& option, const std::string& text,
                                  const Statement& statement);
    void drop_bf16_beside_fp16();
    void report_contradictions();
    void report_replacements();
    void shard_over_ranks_of_other_splits();
    void say_or_refuse(const Statement& statement, const std::string& note);
    void set(const Assignment& assignment);

    const OptionTable& table_;
    Resolution& result_;
    std::vector<Assignment> assignments_;
    // Statements of which another value was taken, with the setting and the reason.
    struct Replaced {
        const Option* option;
        Statement statement;
        std::string note;
    };
    std::vector<Replaced> replaced_;
    // Names of settings without effect, by reason.
    std::vector<std::pair<std::string, std::vector<std::string>>> idle_;
    bool decays_everything_there_ = false;  // an optimizer is DeepSpeed's own
};

}  // namespace ringshard::config
