#include <algorithm>

#include "printing.hpp"
#include "run.hpp"

namespace ringshard::text::jinja {

namespace {

struct MacroFunction : Callable {
    MacroFunction(Heap& store, Run& run, const MacroBody& what)
        : Callable(store, 96), body(what), definition(run.frame) {
        heap.watch(*this);
    }
    void clear() override { definition = {}; }
    Datum call(Run& run, Arguments& arguments) override;
    std::string print() const override { return format_text("<Macro '{}'>", body.name); }
    Datum attribute(std::string_view name) override;

    void deal_out(Run& run, Arguments& arguments, std::vector<Datum>& slots) const;
    void fill_defaults(Run& run) const;

    const MacroBody& body;
    Ref<Frame> definition;
};

Datum MacroFunction::attribute(std::string_view name) {
    if (name == "name") return Datum(std::string_view(body.name));
    if (name == "catch_kwargs") return Datum(body.uses_kwargs);
    if (name == "catch_varargs") return Datum(body.uses_varargs);
    if (name == "caller") return Datum(body.uses_caller);
    if (name != "arguments") return {};
    std::vector<Datum> names;
    for (const std::string& parameter : body.parameters)
        names.emplace_back(std::string_view(parameter));
    return heap.tuple(std::move(names));
}

// Assigns positional, then named arguments; the rest goes to varargs and kwargs if the macro reads
// them.
void MacroFunction::deal_out(Run& run, Arguments& arguments, std::vector<Datum>& slots) const {
    const auto slot = [&](int index) -> Datum& { return slots[static_cast<size_t>(index)]; };
    const size_t given = std::min(arguments.positional.size(), body.parameters.size());
    for (size_t i = 0; i < given; ++i) slot(body.parameter_slots[i]) = arguments.positional[i];
    for (size_t i = given; i < body.parameters.size(); ++i)
        slot(body.parameter_slots[i]) = arguments.take(body.parameters[i]);
    const bool has_own = body.caller_is_parameter;
    if (body.uses_caller && !has_own) {
        const Datum caller = arguments.take("caller");
        static constexpr std::string_view none = "no caller is defined";
        slot(body.caller_slot) =
            caller.is(Kind::missing) ? Datum::undefined(Lack::told, none) : caller;
    }
    if (body.uses_kwargs) {
        const auto rest = run.heap.make<Dict>();
        for (const auto& [name, value] : arguments.named) rest->set(name, value);
        slot(body.kwargs_slot) = datum(rest);
    } else if (!arguments.named.empty()) {
        fail("the macro '{}' takes no argument named '{}'", body.name,
             arguments.named.front().first.text());
    }
    if (body.uses_varargs) {
        slot(body.varargs_slot) =
            run.heap.tuple({arguments.positional.begin() + static_cast<ptrdiff_t>(given),
                            arguments.positional.end()});
    } else if (arguments.positional.size() > body.parameters.size()) {
        fail("the macro '{}' takes {} arguments, not {}", body.name, body.parameters.size(),
             arguments.positional.size());
    }
}

void MacroFunction::fill_defaults(Run& run) const {
    const size_t without = body.parameters.size() - body.defaults.size();
    for (size_t i = 0; i < body.parameters.size(); ++i) {
        const auto slot = static_cast<size_t>(body.parameter_slots[i]);
        if (!run.frame->slots[slot].is(Kind::missing)) continue;
        Datum value = i < without ? Datum::undefined(Lack::name, body.parameters[i])
                                  : body.defaults[i - without]->evaluate(run);
        run.frame->slots[slot] = std::move(value);
    }
}

Datum MacroFunction::call(Run& run, Arguments& arguments) {
    run.check_stack();
    run.step(4);
    const auto frame = run.heap.make<Frame>(body.slots, definition);
    deal_out(run, arguments, frame->slots);
    const Ref<Frame> before = std::exchange(run.frame, frame);
    const int line = run.line;
    std::string text = run.caught([&] {
        body.entry.enter(run);
        fill_defaults(run);
        run_body(run, body.body);
    });
    run.frame = before;
    run.line = line;
    run.check_output(text.size());
    return caught_text(run, std::move(text));
}

}  // namespace

Datum make_macro(Run& run, const MacroBody& macro) {
    return {Kind::callable, run.heap.make<MacroFunction>(run, macro).get()};
}

}  // namespace ringshard::text::jinja
