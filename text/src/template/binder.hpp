#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "nodes.hpp"

namespace ringshard::text::jinja {

// The slots of one function of the template: the template, a macro or a recursive loop.
struct FunctionScope {
    const FunctionScope* outer = nullptr;
    int slots = 0;
};

struct Variable {
    const FunctionScope* function = nullptr;
    int slot = 0;
    bool operator==(const Variable&) const = default;
};

// The names of one scope, and their sources when the scope is entered. The rules are jinja2's, with
// their surprises: a name that a scope sets anywhere is local from the beginning; a name that it
// sets before any read is not looked up outside.
class Symbols {
public:
    Symbols(const Symbols* parent, FunctionScope& function)
        : parent_(parent), function_(&function) {}

    void read(const std::string& name);
    void set(const std::string& name);
    void parameter(const std::string& name);
    void read_all(Expression& expression);
    void set_all(const Expression& target);
    void parameter_all(const Expression& target);
    void declare(const Body& body);

    // The branches of an if: each declares its names in a copy.
    Symbols branch() const { return *this; }
    void join(const std::vector<Symbols>& branches);

    const Variable* find(const std::string& name) const;

    struct Load {
        enum class From : uint8_t { parameter, outside, variable, nothing } from;
        std::string name;
        Variable variable;
    };
    const std::map<int, Load>& loads() const { return loads_; }
    const FunctionScope& function() const { return *function_; }
    FunctionScope& function() { return *function_; }

private:
    void define(const std::string& name, Load load);

    const Symbols* parent_;
    FunctionScope* function_;
    // One slot per name, shared by all branches.
    std::shared_ptr<std::map<std::string, int>> slots_ =
        std::make_shared<std::map<std::string, int>>();
    std::map<std::string, Variable> known_;
    std::map<int, Load> loads_;
    std::set<std::string> sets_;
};

// Resolves names to slots, and filters and tests to functions.
class Binder {
public:
    explicit Binder(Program& program) : program_(program) {}
    void run();

    void bind(Expression& expression);
    void bind_target(Expression& target);
    void bind(const Body& body);
    // In conditional parts of a template, an unknown filter fails only when it runs.
    void softly(const std::function<void()>& act);

    Symbols inner() { return {symbols_, symbols_->function()}; }
    Symbols inner(FunctionScope& function) {
        function.outer = &symbols_->function();
        return {symbols_, function};
    }
    // Binds inside the scope and returns how to enter it.
    ScopeEntry within(Symbols& symbols, const std::function<void()>& act);
    void bind_macro(MacroBody& macro);

    Place place(const std::string& name, int line) const;
    Symbols& symbols() { return *symbols_; }
    int outside(const std::string& name);

    // Loops around the current node, within the same function.
    int loops = 0;

private:
    Place place(const Variable& variable) const;
    void bind_filter(FilterUse& use) const;
    void bind_test(TestUse& use) const;
    Program& program_;
    Symbols* symbols_ = nullptr;
    bool soft_ = false;
};

}  // namespace ringshard::text::jinja
