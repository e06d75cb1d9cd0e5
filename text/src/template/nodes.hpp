#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datum.hpp"

// The syntax tree of a template. The parser builds it and the binder resolves its variables; then
// it never changes, so that renderings on several threads share it.
namespace ringshard::text::jinja {

class Run;
class Binder;
class Symbols;
struct Expression;
struct Statement;
struct FilterEntry;
struct TestEntry;

using ExpressionPtr = std::unique_ptr<Expression>;
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

// Location of a variable: a slot of the function `hops` functions outwards.
struct Place {
    int hops = 0;
    int slot = 0;
};

struct Expression {
    explicit Expression(int where) : line(where) {}
    virtual ~Expression() = default;
    virtual Datum evaluate(Run& run) const = 0;
    // Appends the printed value.
    virtual void print(Run& run, std::string& out) const;
    virtual void each_child(const std::function<void(Expression&)>&) {}

    int line;
    int depth = 1;
    bool calls = false;  // may run a macro
};

struct Constant : Expression {
    Constant(int where, Datum constant) : Expression(where), value(std::move(constant)) {}
    Constant(int where, std::string lasting);
    Datum evaluate(Run&) const override { return value; }
    void print(Run& run, std::string& out) const override;
    std::string kept;
    Datum value;
    bool is_verbatim = false;  // text of the template outside of tags, never escaped
};

struct Name : Expression {
    Name(int where, std::string what) : Expression(where), name(std::move(what)) {}
    Datum evaluate(Run& run) const override;
    void print(Run& run, std::string& out) const override;
    std::string name;
    Place place;
};

// "space.member" as the target of a set statement.
struct SpaceMember : Expression {
    SpaceMember(int where, std::string what, std::string part)
        : Expression(where), name(std::move(what)), member(std::move(part)) {}
    Datum evaluate(Run& run) const override;
    std::string name, member;
    Place place;
};

struct Sequence : Expression {
    Sequence(int where, bool tuple) : Expression(where), is_tuple(tuple) {}
    Datum evaluate(Run& run) const override;
    void each_child(const std::function<void(Expression&)>& visit) override;
    bool is_tuple;
    std::vector<ExpressionPtr> items;
};

struct DictOf : Expression {
    using Expression::Expression;
    Datum evaluate(Run& run) const override;
    void each_child(const std::function<void(Expression&)>& visit) override;
    std::vector<std::pair<ExpressionPtr, ExpressionPtr>> members;
};

struct Attribute : Expression {
    using Expression::Expression;
    Datum evaluate(Run& run) const override;
    void each_child(const std::function<void(Expression&)>& visit) override { visit(*of); }
    ExpressionPtr of;
    std::string name;
};

struct Element : Expression {
    using Expression::Expression;
    Datum evaluate(Run& run) const override;
    void each_child(const std::function<void(Expression&)>& visit) override;
    ExpressionPtr of, index;
};

struct Slice : Expression {
    using Expression::Expression;
    Datum evaluate(Run& run) const override;
    void each_child(const std::function<void(Expression&)>& visit) override;
    ExpressionPtr start, stop, step;
};

struct CallArguments {
    void each_child(const std::function<void(Expression&)>& visit);
    std::vector<ExpressionPtr> positional;
    std::vector<std::pair<std::string, ExpressionPtr>> named;
    ExpressionPtr more_positional, more_named;
};

struct Call : Expression {
    explicit Call(int where) : Expression(where) { calls = true; }
    Datum evaluate(Run& run) const override;
    Datum call(Run& run, const Datum& caller) const;
    void each_child(const std::function<void(Expression&)>& visit) override;
    ExpressionPtr callee;
    CallArguments arguments;
};

struct FilterUse : Expression {
    using Expression::Expression;
    Datum evaluate(Run& run) const override;
    Datum apply(Run& run, const Datum& input) const;
    void each_child(const std::function<void(Expression&)>& visit) override;
    ExpressionPtr input;  // nullptr: the text of a block
    std::string name;
    CallArguments arguments;
    const FilterEntry* filter = nullptr;
};

struct TestUse : Expression {
    using Expression::Expression;
    Datum evaluate(Run& run) const override;
    void each_child(const std::function<void(Expression&)>& visit) override;
    ExpressionPtr input;
    std::string name;
    CallArguments arguments;
    const TestEntry* test = nullptr;
};

enum class Sign : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };

struct Binary : Expression {
    Binary(int where, Sign what) : Expression(where), sign(what) {}
    Datum evaluate(Run& run) const override;
    void print(Run& run, std::string& out) const override;
    void each_child(const std::function<void(Expression&)>& visit) override;
    Sign sign;
    ExpressionPtr left, right;
};

struct Unary : Expression {
    enum class What : uint8_t { negative, positive, negation };
    Unary(int where, What what) : Expression(where), act(what) {}
    Datum evaluate(Run& run) const override;
    void each_child(const std::function<void(Expression&)>& visit) override { visit(*of); }
    What act;
    ExpressionPtr of;
};

// a ~ b ~ c
struct Joined : Expression {
    using Expression::Expression;
    Datum evaluate(Run& run) const override;
    void print(Run& run, std::string& out) const override;
    void each_child(const std::function<void(Expression&)>& visit) override;
    std::vector<ExpressionPtr> parts;
};

struct Logic : Expression {
    Logic(int where, bool all) : Expression(where), is_and(all) {}
    Datum evaluate(Run& run) const override;
    void each_child(const std::function<void(Expression&)>& visit) override;
    bool is_and;
    ExpressionPtr left, right;
};

enum class Relation : uint8_t { equal, unequal, less, less_equal, more, more_equal, in, not_in };

struct Comparison : Expression {
    using Expression::Expression;
    Datum evaluate(Run& run) const override;
    void each_child(const std::function<void(Expression&)>& visit) override;
    ExpressionPtr first;
    std::vector<std::pair<Relation, ExpressionPtr>> others;
};

struct Conditional : Expression {
    using Expression::Expression;
    Datum evaluate(Run& run) const override;
    void print(Run& run, std::string& out) const override;
    void each_child(const std::function<void(Expression&)>& visit) override;
    ExpressionPtr then, condition, otherwise;
};

// How to initialize the variables of a scope when it is entered.
struct ScopeEntry {
    struct Load {
        enum class From : uint8_t { outside, place, nothing };
        From from = From::nothing;
        int slot = 0;
        Place place = {};
        int outside = 0;  // index among the names of the context
    };
    void enter(Run& run) const;
    std::vector<Load> loads;
};

enum class Flow : uint8_t { on, leave, again };

struct Statement {
    explicit Statement(int where) : line(where) {}
    virtual ~Statement() = default;
    virtual Flow run(Run& run) const = 0;
    // Declares the names that it reads and sets in the scope around it.
    virtual void declare(Symbols& symbols) = 0;
    virtual void bind(Binder& binder) = 0;
    int line;
};

Flow run_body(Run& run, const Body& body);

struct Output : Statement {
    using Statement::Statement;
    Flow run(Run& run) const override;
    void declare(Symbols& symbols) override;
    void bind(Binder& binder) override;
    std::vector<ExpressionPtr> parts;
};

struct If : Statement {
    using Statement::Statement;
    Flow run(Run& run) const override;
    void declare(Symbols& symbols) override;
    void bind(Binder& binder) override;
    std::vector<std::pair<ExpressionPtr, Body>> branches;
    Body otherwise;
};

struct For : Statement {
    using Statement::Statement;
    Flow run(Run& run) const override;
    void declare(Symbols& symbols) override;
    void bind(Binder& binder) override;
    std::string loop(Run& run, const Datum& over, int depth, const Ref<Object>& definition) const;

    ExpressionPtr target, over, condition, condition_target;
    Body body, otherwise;
    bool recursive = false;
    bool uses_loop = false;
    ScopeEntry body_entry, condition_entry, otherwise_entry;
    Place loop_place;
    int slots = 0;  // if it is a recursive loop, which is a function

private:
    Flow go(Run& run, const Datum& over, int depth, const Ref<Object>& definition) const;
};

struct Set : Statement {
    using Statement::Statement;
    Flow run(Run& run) const override;
    void declare(Symbols& symbols) override;
    void bind(Binder& binder) override;
    ExpressionPtr target, value;
};

struct SetBlock : Statement {
    using Statement::Statement;
    Flow run(Run& run) const override;
    void declare(Symbols& symbols) override;
    void bind(Binder& binder) override;
    ExpressionPtr target, filter;
    Body body;
    ScopeEntry entry;
};

struct MacroBody {
    std::string name;
    std::vector<std::string> parameters;
    std::vector<ExpressionPtr> defaults;  // of the last parameters
    Body body;
    bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
    bool caller_is_parameter = false;

    ScopeEntry entry;
    std::vector<int> parameter_slots;
    int caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;
    int slots = 0;
};

struct Macro : Statement {
    using Statement::Statement;
    Flow run(Run& run) const override;
    void declare(Symbols& symbols) override;
    void bind(Binder& binder) override;
    MacroBody macro;
    Place place;
};

struct CallBlock : Statement {
    using Statement::Statement;
    Flow run(Run& run) const override;
    void declare(Symbols& symbols) override;
    void bind(Binder& binder) override;
    MacroBody caller;
    std::unique_ptr<Call> call;
};

// A body with its own scope: filter, with, generation, autoescape and named blocks.
struct Scoped : Statement {
    enum class Kind : uint8_t { filter, with, generation, autoescape, named };
    Scoped(int where, Kind what) : Statement(where), kind(what) {}
    Flow run(Run& run) const override;
    void declare(Symbols& symbols) override;
    void bind(Binder& binder) override;
    Kind kind;
    ExpressionPtr filter;  // or the value of autoescape
    std::vector<std::pair<ExpressionPtr, ExpressionPtr>> variables;
    Body body;
    ScopeEntry entry;

private:
    Flow run_generation(Run& run) const;
    Flow run_filter(Run& run) const;
};

struct Leave : Statement {
    Leave(int where, bool once) : Statement(where), again(once) {}
    Flow run(Run&) const override { return again ? Flow::again : Flow::leave; }
    void declare(Symbols&) override {}
    void bind(Binder& binder) override;
    bool again;
};

// Returns true for expressions that can be the target of a set.
bool can_be_set(const Expression& target);

struct Program {
    Body body;
    ScopeEntry entry;
    int slots = 0;
    std::vector<std::string> outside_names;
    bool marks_assistant = false;
};

// Parses and binds a template.
Program compile(std::string_view source);

}  // namespace ringshard::text::jinja
