#include "compare.hpp"
#include "printing.hpp"
#include "run.hpp"

// Evaluation of expressions.
namespace ringshard::text::jinja {

void Expression::print(Run& run, std::string& out) const { append_text(out, evaluate(run)); }

Constant::Constant(int where, std::string lasting) : Expression(where), kept(std::move(lasting)) {
    value = Datum(std::string_view(kept));
}

void Constant::print(Run&, std::string& out) const {
    if (value.is(Kind::text)) {
        out += value.text();
    } else {
        append_text(out, value);
    }
}

Datum Name::evaluate(Run& run) const {
    const Datum& value = run.at(place);
    if (value.is(Kind::missing)) return Datum::undefined(Lack::name, name);
    return value;
}

void Name::print(Run& run, std::string& out) const { append_text(out, run.at(place)); }

Datum SpaceMember::evaluate(Run& run) const { return run.at(place); }

Datum Sequence::evaluate(Run& run) const {
    std::vector<Datum> values;
    values.reserve(items.size());
    for (const auto& item : items) values.push_back(item->evaluate(run));
    return is_tuple ? run.heap.tuple(std::move(values)) : run.heap.list(std::move(values));
}

void Sequence::each_child(const std::function<void(Expression&)>& visit) {
    for (const auto& item : items) visit(*item);
}

Datum DictOf::evaluate(Run& run) const {
    const auto dict = run.heap.make<Dict>();
    for (const auto& [key, value] : members) {
        const Datum name = key->evaluate(run);
        check_key(name);
        dict->set(name, value->evaluate(run));
    }
    return datum(dict);
}

void DictOf::each_child(const std::function<void(Expression&)>& visit) {
    for (const auto& [key, value] : members) {
        visit(*key);
        visit(*value);
    }
}

Datum Attribute::evaluate(Run& run) const {
    const Datum whole = of->evaluate(run);
    run.line = line;
    return attribute(run, whole, Datum(std::string_view(name)));
}

Datum Element::evaluate(Run& run) const {
    const Datum whole = of->evaluate(run);
    if (const auto* part = dynamic_cast<const Slice*>(index.get())) {
        const auto bound = [&](const ExpressionPtr& expression) {
            return expression ? expression->evaluate(run) : Datum::none();
        };
        const Datum start = bound(part->start);
        const Datum stop = bound(part->stop);
        const Datum step = bound(part->step);
        run.line = line;
        return slice(run, whole, start, stop, step);
    }
    const Datum which = index->evaluate(run);
    run.line = line;
    return element(run, whole, which);
}

void Element::each_child(const std::function<void(Expression&)>& visit) {
    visit(*of);
    visit(*index);
}

Datum Slice::evaluate(Run&) const { fail("a slice cannot be part of a tuple"); }

void Slice::each_child(const std::function<void(Expression&)>& visit) {
    for (const ExpressionPtr* bound : {&start, &stop, &step})
        if (*bound) visit(**bound);
}

void CallArguments::each_child(const std::function<void(Expression&)>& visit) {
    for (const auto& value : positional) visit(*value);
    for (const auto& [name, value] : named) visit(*value);
    if (more_positional) visit(*more_positional);
    if (more_named) visit(*more_named);
}

Arguments evaluate_arguments(Run& run, const CallArguments& from) {
    Arguments arguments;
    arguments.positional.reserve(from.positional.size());
    for (const auto& value : from.positional) arguments.positional.push_back(value->evaluate(run));
    if (from.more_positional)
        for (Datum& more : all_of(run, from.more_positional->evaluate(run)))
            arguments.positional.push_back(std::move(more));
    for (const auto& [name, value] : from.named)
        arguments.named.emplace_back(Datum(std::string_view(name)), value->evaluate(run));
    if (!from.more_named) return arguments;
    const Datum more = from.more_named->evaluate(run);
    if (!more.is(Kind::dict)) fail("** needs a dict, not {}", type_name(more));
    for (const auto& [name, value] : more.as<Dict>().members) {
        if (!name.is(Kind::text)) fail("the names of arguments are texts, not {}", type_name(name));
        for (const auto& [known, old] : arguments.named)
            if (known.text() == name.text()) fail("the argument '{}' is given twice", name.text());
        arguments.named.emplace_back(name, value);
    }
    return arguments;
}

Datum Call::evaluate(Run& run) const { return call(run, Datum()); }

// `caller`: the macro of {% call %}, or `missing`.
Datum Call::call(Run& run, const Datum& caller) const {
    run.step();
    const auto* method = dynamic_cast<const Attribute*>(callee.get());
    // Most calls are methods of texts: avoid creating a function object.
    if (method != nullptr) {
        const Datum self = method->of->evaluate(run);
        const MethodEntry* entry = find_method(self.kind(), method->name);
        if (entry != nullptr && entry->call != nullptr && caller.is(Kind::missing)) {
            Arguments given = evaluate_arguments(run, arguments);
            run.line = line;
            return call_method(run, *entry, self, given);
        }
        run.line = line;
        const Datum function = attribute(run, self, Datum(std::string_view(method->name)));
        Arguments given = evaluate_arguments(run, arguments);
        if (!caller.is(Kind::missing))
            given.named.emplace_back(Datum(std::string_view("caller")), caller);
        run.line = line;
        return call_datum(run, function, given);
    }
    const Datum function = callee->evaluate(run);
    Arguments given = evaluate_arguments(run, arguments);
    if (!caller.is(Kind::missing))
        given.named.emplace_back(Datum(std::string_view("caller")), caller);
    run.line = line;
    return call_datum(run, function, given);
}

void Call::each_child(const std::function<void(Expression&)>& visit) {
    visit(*callee);
    arguments.each_child(visit);
}

Datum FilterUse::apply(Run& run, const Datum& given) const {
    if (filter == nullptr) fail_at(line, "there is no filter '{}'", name);
    Arguments values = evaluate_arguments(run, arguments);
    run.line = line;
    return filter->apply(run, given, values);
}

Datum FilterUse::evaluate(Run& run) const {
    run.step();
    return apply(run, input->evaluate(run));
}

void FilterUse::each_child(const std::function<void(Expression&)>& visit) {
    if (input) visit(*input);
    arguments.each_child(visit);
}

Datum TestUse::evaluate(Run& run) const {
    run.step();
    const Datum given = input->evaluate(run);
    if (test == nullptr) fail_at(line, "there is no test '{}'", name);
    Arguments values = evaluate_arguments(run, arguments);
    run.line = line;
    return Datum(test->holds(run, given, values));
}

void TestUse::each_child(const std::function<void(Expression&)>& visit) {
    visit(*input);
    arguments.each_child(visit);
}

Datum Binary::evaluate(Run& run) const {
    const Datum first = left->evaluate(run);
    const Datum second = right->evaluate(run);
    run.line = line;
    return sign == Sign::add ? add(run, first, second) : arithmetic(run, sign, first, second);
}

// Prints 'a' + b + 'c' piece by piece, without building the sum. Not if a macro may run: a
// generation block records positions in the output.
void Binary::print(Run& run, std::string& out) const {
    if (sign != Sign::add || calls || run.escapes) return Expression::print(run, out);
    const size_t before = out.size();
    const auto* chain = dynamic_cast<const Binary*>(left.get());
    Datum first;
    if (chain != nullptr && chain->sign == Sign::add) {
        first = chain->evaluate(run);
    } else {
        first = left->evaluate(run);
    }
    const Datum second = right->evaluate(run);
    run.line = line;
    const bool plain =
        first.is(Kind::text) && second.is(Kind::text) && !first.is_markup() && !second.is_markup();
    if (!plain) return append_text(out, add(run, first, second));
    out.reserve(before + first.text().size() + second.text().size());
    out += first.text();
    out += second.text();
}

void Binary::each_child(const std::function<void(Expression&)>& visit) {
    visit(*left);
    visit(*right);
}

Datum Unary::evaluate(Run& run) const {
    const Datum value = of->evaluate(run);
    if (act == What::negation) return Datum(!truth_of(value));
    run.line = line;
    if (value.is(Kind::undefined)) fail_undefined(value);
    if (value.is(Kind::real)) return Datum(act == What::negative ? -value.real() : value.real());
    if (!value.is_whole()) fail("a sign before {}", type_name(value));
    if (act == What::positive) return Datum(value.integer());
    if (value.integer() == INT64_MIN) fail("the number is too large");
    return Datum(-value.integer());
}

Datum Joined::evaluate(Run& run) const {
    if (run.escapes) {
        std::string text;
        for (const auto& part : parts) text += to_markup(part->evaluate(run));
        return run.heap.text(std::move(text)).as_markup();
    }
    std::string text;
    for (const auto& part : parts) {
        append_text(text, part->evaluate(run));
        run.check_size(text.size(), 1);
    }
    return run.heap.text(std::move(text));
}

void Joined::print(Run& run, std::string& out) const {
    if (calls || run.escapes) return Expression::print(run, out);
    for (const auto& part : parts) {
        part->print(run, out);
        run.check_output(out.size());
    }
}

void Joined::each_child(const std::function<void(Expression&)>& visit) {
    for (const auto& part : parts) visit(*part);
}

Datum Logic::evaluate(Run& run) const {
    Datum first = left->evaluate(run);
    return truth_of(first) == is_and ? right->evaluate(run) : first;
}

void Logic::each_child(const std::function<void(Expression&)>& visit) {
    visit(*left);
    visit(*right);
}

namespace {

bool holds(Run& run, Relation relation, const Datum& left, const Datum& right) {
    switch (relation) {
        case Relation::equal: return equal(left, right);
        case Relation::unequal: return !equal(left, right);
        case Relation::less: return less(left, right);
        case Relation::more: return less(right, left);
        // Not the negation of "more": with NaN both are false.
        case Relation::less_equal: return less(left, right) || equal(left, right);
        case Relation::more_equal: return less(right, left) || equal(left, right);
        case Relation::in: return contains(run, right, left);
        case Relation::not_in: return !contains(run, right, left);
    }
    return false;
}

}  // namespace

Datum Comparison::evaluate(Run& run) const {
    Datum left = first->evaluate(run);
    for (const auto& [relation, other] : others) {
        Datum right = other->evaluate(run);
        run.line = line;
        if (!holds(run, relation, left, right)) return Datum(false);
        left = std::move(right);
    }
    return Datum(true);
}

void Comparison::each_child(const std::function<void(Expression&)>& visit) {
    visit(*first);
    for (const auto& [relation, other] : others) visit(*other);
}

Datum Conditional::evaluate(Run& run) const {
    if (truth_of(condition->evaluate(run))) return then->evaluate(run);
    if (otherwise) return otherwise->evaluate(run);
    static constexpr std::string_view message =
        "the inline if-expression was false and has no else";
    return Datum::undefined(Lack::told, message);
}

void Conditional::print(Run& run, std::string& out) const {
    if (truth_of(condition->evaluate(run))) return then->print(run, out);
    if (otherwise) otherwise->print(run, out);
}

void Conditional::each_child(const std::function<void(Expression&)>& visit) {
    visit(*then);
    visit(*condition);
    if (otherwise) visit(*otherwise);
}

std::string lack_message(const Datum& undefined) {
    if (undefined.is(Kind::missing)) return "a value is not defined";
    const std::string_view name = undefined.text();
    switch (undefined.lack()) {
        case Lack::name: return format_text("'{}' is not defined", name);
        case Lack::attribute:
        case Lack::element: break;
        case Lack::unsafe:
            return format_text("'{}' is not for templates: it changes or opens up a value", name);
        case Lack::told: return std::string(name);
    }
    const char* of = kind_name(undefined.lacked_by());
    if (name.data() == nullptr || name.size() == SIZE_MAX)
        return format_text("the {} has no element of that number or key", of);
    return format_text("the {} has no '{}'", of, name);
}

}  // namespace ringshard::text::jinja
