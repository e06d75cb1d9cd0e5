#include "binder.hpp"

#include "calls.hpp"
#include "parser.hpp"

namespace ringshard::text::jinja {

Program compile(std::string_view source) {
    Program program = Parser(source).run();
    Binder(program).run();
    return program;
}

void Binder::run() {
    FunctionScope function;
    Symbols symbols(nullptr, function);
    symbols.declare(program_.body);
    program_.entry = within(symbols, [&] { bind(program_.body); });
    program_.slots = function.slots;
}

int Binder::outside(const std::string& name) {
    auto& names = program_.outside_names;
    for (size_t i = 0; i < names.size(); ++i)
        if (names[i] == name) return static_cast<int>(i);
    names.push_back(name);
    return static_cast<int>(names.size()) - 1;
}

ScopeEntry Binder::within(Symbols& symbols, const std::function<void()>& act) {
    Symbols* const around = std::exchange(symbols_, &symbols);
    const bool soft = std::exchange(soft_, false);
    act();
    ScopeEntry entry;
    for (const auto& [slot, load] : symbols.loads()) {
        using From = ScopeEntry::Load::From;
        switch (load.from) {
            case Symbols::Load::From::parameter: break;
            case Symbols::Load::From::outside:
                entry.loads.push_back({From::outside, slot, {}, outside(load.name)});
                break;
            case Symbols::Load::From::variable:
                entry.loads.push_back({From::place, slot, place(load.variable)});
                break;
            case Symbols::Load::From::nothing: entry.loads.push_back({From::nothing, slot}); break;
        }
    }
    symbols_ = around;
    soft_ = soft;
    return entry;
}

Place Binder::place(const Variable& variable) const {
    Place found{0, variable.slot};
    for (const FunctionScope* function = &symbols_->function(); function != variable.function;
         function = function->outer)
        ++found.hops;
    return found;
}

Place Binder::place(const std::string& name, int line) const {
    const Variable* variable = symbols_->find(name);
    if (variable == nullptr) fail_at(line, "'{}' is not known here", name);
    return place(*variable);
}

void Binder::softly(const std::function<void()>& act) {
    const bool before = std::exchange(soft_, true);
    act();
    soft_ = before;
}

void Binder::bind_filter(FilterUse& use) const {
    use.filter = find_filter(use.name);
    if (use.filter != nullptr || soft_) return;
    fail_at(use.line, "there is no filter '{}'{}", use.name, reason_for_no_filter(use.name));
}

void Binder::bind_test(TestUse& use) const {
    use.test = find_test(use.name);
    if (use.test == nullptr && !soft_) fail_at(use.line, "there is no test '{}'", use.name);
}

void Binder::bind(Expression& expression) {
    const bool before = soft_;
    if (auto* name = dynamic_cast<Name*>(&expression)) {
        // The filter of a set block may read a name that nothing else in the scope mentions.
        symbols_->read(name->name);
        name->place = place(name->name, name->line);
    } else if (auto* filter = dynamic_cast<FilterUse*>(&expression)) {
        bind_filter(*filter);
    } else if (auto* test = dynamic_cast<TestUse*>(&expression)) {
        bind_test(*test);
    } else if (dynamic_cast<Conditional*>(&expression) != nullptr) {
        soft_ = true;
    }
    expression.each_child([this](Expression& child) { bind(child); });
    soft_ = before;
}

void Binder::bind_target(Expression& target) {
    if (auto* name = dynamic_cast<Name*>(&target)) name->place = place(name->name, name->line);
    if (auto* member = dynamic_cast<SpaceMember*>(&target))
        member->place = place(member->name, member->line);
    if (auto* names = dynamic_cast<Sequence*>(&target))
        for (const auto& item : names->items) bind_target(*item);
}

void Binder::bind(const Body& body) {
    for (const auto& statement : body) statement->bind(*this);
}

void Binder::bind_macro(MacroBody& macro) {
    FunctionScope function;
    Symbols symbols = inner(function);
    for (const std::string& name : macro.parameters) symbols.parameter(name);
    if (macro.uses_caller && !macro.caller_is_parameter) symbols.parameter("caller");
    if (macro.uses_kwargs) symbols.parameter("kwargs");
    if (macro.uses_varargs) symbols.parameter("varargs");
    for (const auto& value : macro.defaults) symbols.read_all(*value);
    symbols.declare(macro.body);
    const int outer_loops = std::exchange(loops, 0);
    macro.entry = within(symbols, [&] {
        for (const auto& value : macro.defaults) bind(*value);
        bind(macro.body);
        for (const std::string& name : macro.parameters)
            macro.parameter_slots.push_back(place(name, 0).slot);
        if (macro.uses_caller) macro.caller_slot = place("caller", 0).slot;
        if (macro.uses_kwargs) macro.kwargs_slot = place("kwargs", 0).slot;
        if (macro.uses_varargs) macro.varargs_slot = place("varargs", 0).slot;
    });
    loops = outer_loops;
    macro.slots = function.slots;
}

void Output::bind(Binder& binder) {
    for (const auto& part : parts) binder.bind(*part);
}

void If::bind(Binder& binder) {
    binder.softly([&] {
        for (const auto& [condition, body] : branches) {
            binder.bind(*condition);
            binder.bind(body);
        }
        binder.bind(otherwise);
    });
}

void For::bind(Binder& binder) {
    binder.bind(*over);
    if (condition) {
        Symbols symbols = binder.inner();
        symbols.parameter_all(*condition_target);
        symbols.read_all(*condition);
        condition_entry = binder.within(symbols, [&] {
            binder.bind_target(*condition_target);
            binder.bind(*condition);
        });
    }
    FunctionScope function;
    Symbols symbols = recursive ? binder.inner(function) : binder.inner();
    if (uses_loop) symbols.parameter("loop");
    symbols.parameter_all(*target);
    symbols.declare(body);
    const int outer_loops = std::exchange(binder.loops, recursive ? 1 : binder.loops + 1);
    body_entry = binder.within(symbols, [&] {
        if (uses_loop) loop_place = binder.place("loop", line);
        binder.bind_target(*target);
        binder.bind(body);
    });
    binder.loops = recursive ? 0 : outer_loops;
    Symbols others = recursive ? binder.inner(function) : binder.inner();
    others.declare(otherwise);
    otherwise_entry = binder.within(others, [&] { binder.bind(otherwise); });
    binder.loops = outer_loops;
    slots = function.slots;
}

void Set::bind(Binder& binder) {
    binder.bind(*value);
    binder.bind_target(*target);
}

void SetBlock::bind(Binder& binder) {
    Symbols symbols = binder.inner();
    symbols.declare(body);
    entry = binder.within(symbols, [&] {
        binder.bind(body);
        if (filter) binder.bind(*filter);
    });
    binder.bind_target(*target);
}

void Macro::bind(Binder& binder) {
    binder.bind_macro(macro);
    place = binder.place(macro.name, line);
}

void CallBlock::bind(Binder& binder) {
    binder.bind_macro(caller);
    binder.bind(*call);
}

void Scoped::bind(Binder& binder) {
    for (const auto& [name, value] : variables) binder.bind(*value);
    if (kind == Kind::autoescape) binder.bind(*filter);
    Symbols symbols = binder.inner();
    if (kind == Kind::filter) symbols.read_all(*filter);
    for (const auto& [name, value] : variables) symbols.parameter_all(*name);
    symbols.declare(body);
    // In jinja2 a generation block is a function of its own, so it cannot leave a loop.
    const int outer_loops = binder.loops;
    if (kind == Kind::generation) binder.loops = 0;
    entry = binder.within(symbols, [&] {
        if (kind == Kind::filter) binder.bind(*filter);
        for (const auto& [name, value] : variables) binder.bind_target(*name);
        binder.bind(body);
    });
    binder.loops = outer_loops;
}

void Leave::bind(Binder& binder) {
    if (binder.loops == 0)
        fail_at(line, "{{% {} %}} is not inside a loop", again ? "continue" : "break");
}

}  // namespace ringshard::text::jinja
