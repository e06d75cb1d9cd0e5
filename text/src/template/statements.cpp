#include <algorithm>

#include "compare.hpp"
#include "loop.hpp"
#include "printing.hpp"
#include "run.hpp"
#include "unicode/python_characters.hpp"

// Execution of statements.
namespace ringshard::text::jinja {

void ScopeEntry::enter(Run& run) const {
    for (const Load& load : loads) {
        Datum& slot = run.frame->slots[static_cast<size_t>(load.slot)];
        switch (load.from) {
            case Load::From::outside: slot = run.outside(load.outside); break;
            case Load::From::place: slot = run.at(load.place); break;
            case Load::From::nothing: slot = Datum(); break;
        }
    }
}

Flow run_body(Run& run, const Body& body) {
    for (const auto& statement : body) {
        run.step();
        run.line = statement->line;
        if (const Flow flow = statement->run(run); flow != Flow::on) return flow;
    }
    return Flow::on;
}

Flow Output::run(Run& run) const {
    for (const auto& part : parts) {
        run.step();
        run.line = part->line;
        if (run.is_strict && !run.escapes) {
            const Datum value = part->evaluate(run);
            if (value.is(Kind::undefined)) fail_undefined(value);
            *run.out += to_text(value);
        } else if (!run.escapes) {
            part->print(run, *run.out);
        } else {
            const auto* constant = dynamic_cast<const Constant*>(part.get());
            const Datum value = part->evaluate(run);
            *run.out += constant != nullptr && constant->is_verbatim ? std::string(value.text())
                                                                     : to_markup(value);
        }
        run.check_output(run.out->size());
    }
    return Flow::on;
}

Flow If::run(Run& run) const {
    for (const auto& [condition, body] : branches)
        if (truth_of(condition->evaluate(run))) return run_body(run, body);
    return run_body(run, otherwise);
}

void assign(Run& run, const Expression& target, const Datum& value) {
    if (const auto* name = dynamic_cast<const Name*>(&target)) {
        run.at(name->place) = value;
    } else if (const auto* member = dynamic_cast<const SpaceMember*>(&target)) {
        if (member->member.starts_with('_'))
            fail("members of a namespace cannot begin with an underscore: '{}'", member->member);
        const Datum space = run.at(member->place);
        space.as<Space>().members->set(Datum(std::string_view(member->member)), value);
    } else if (const auto* names = dynamic_cast<const Sequence*>(&target)) {
        const std::vector<Datum> values = all_of(run, value);
        if (values.size() != names->items.size())
            fail("{} values cannot be assigned to {} names", values.size(), names->items.size());
        for (size_t i = 0; i < values.size(); ++i) assign(run, *names->items[i], values[i]);
    }
}

// Checks, before computing the value, that the target is a namespace.
void check_spaces(Run& run, const Expression& target) {
    if (const auto* member = dynamic_cast<const SpaceMember*>(&target))
        if (!run.at(member->place).is(Kind::space))
            fail("'{}.{}' cannot be set: '{}' is no namespace(); only namespaces can be changed",
                 member->name, member->member, member->name);
    if (const auto* names = dynamic_cast<const Sequence*>(&target))
        for (const auto& item : names->items) check_spaces(run, *item);
}

Flow Set::run(Run& run) const {
    check_spaces(run, *target);
    assign(run, *target, value->evaluate(run));
    return Flow::on;
}

Datum caught_text(Run& run, std::string text) {
    Datum made = run.heap.text(std::move(text));
    return run.escapes ? made.as_markup() : made;
}

Flow SetBlock::run(Run& run) const {
    entry.enter(run);
    Flow flow = Flow::on;
    Datum text = caught_text(run, run.caught([&] { flow = run_body(run, body); }));
    // break or continue left the block: set nothing.
    if (flow != Flow::on) return flow;
    if (filter) {
        // The innermost filter of the chain has no input.
        text = apply_chain(run, *filter, text);
    }
    check_spaces(run, *target);
    assign(run, *target, text);
    return Flow::on;
}

Datum apply_chain(Run& run, const Expression& chain, const Datum& text) {
    const auto& filter = static_cast<const FilterUse&>(chain);
    return filter.apply(run, filter.input ? apply_chain(run, *filter.input, text) : text);
}

Flow Macro::run(Run& run) const {
    run.at(place) = make_macro(run, macro);
    return Flow::on;
}

Flow CallBlock::run(Run& run) const {
    const Datum printed = call->call(run, make_macro(run, caller));
    if (run.escapes) {
        *run.out += to_markup(printed);
    } else {
        append_text(*run.out, printed);
    }
    run.check_output(run.out->size());
    return Flow::on;
}

Flow Scoped::run_filter(Run& run) const {
    Flow flow = Flow::on;
    const Datum text = caught_text(run, run.caught([&] { flow = run_body(run, body); }));
    if (flow != Flow::on) return flow;
    append_text(*run.out, apply_chain(run, *filter, text));
    run.check_output(run.out->size());
    return Flow::on;
}

Flow Scoped::run_generation(Run& run) const {
    const std::string text = run.caught([&] { run_body(run, body); });
    run.note_generated(text);
    *run.out += text;
    return Flow::on;
}

Flow Scoped::run(Run& run) const {
    std::vector<Datum> values;
    for (const auto& [name, value] : variables) values.push_back(value->evaluate(run));
    const bool escapes = kind == Kind::autoescape ? truth_of(filter->evaluate(run)) : run.escapes;
    entry.enter(run);
    for (size_t i = 0; i < values.size(); ++i) assign(run, *variables[i].first, values[i]);
    if (kind == Kind::filter) return run_filter(run);
    if (kind == Kind::generation) return run_generation(run);
    const bool before = std::exchange(run.escapes, escapes);
    const Flow flow = run_body(run, body);
    run.escapes = before;
    return flow;
}

}  // namespace ringshard::text::jinja
