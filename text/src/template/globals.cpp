#include <unordered_map>

#include "compare.hpp"
#include "printing.hpp"
#include "run.hpp"

// Global functions of templates.
namespace ringshard::text::jinja {

namespace {

using Function = Datum (*)(Run&, Arguments&);

struct GlobalFunction : Callable {
    GlobalFunction(Heap& store, std::string_view what, Function how)
        : Callable(store), name(what), function(how) {}
    Datum call(Run& run, Arguments& arguments) override { return function(run, arguments); }
    std::string print() const override { return format_text("<function {}>", name); }
    Datum attribute(std::string_view wanted) override {
        // dict.fromkeys is the only attribute; the dict does not matter.
        if (name != "dict" || wanted != "fromkeys") return {};
        return {
            Kind::callable,
            heap.make<Method>(datum(heap.make<Dict>()), *find_method(Kind::dict, wanted)).get()};
    }
    std::string_view name;
    Function function;
};

Datum range(Run& run, Arguments& arguments) {
    if (!arguments.named.empty()) fail("range takes its arguments without names");
    const Bound bound(arguments, "range", {"start", "stop", "step"}, 1);
    const int64_t first = bound.integer_or(0, 0);
    const int64_t step = bound.integer_or(2, 1);
    if (step == 0) fail("the step of a range is zero");
    if (!bound.has(1)) return {Kind::range, run.heap.make<Range>(0, first, 1).get()};
    return {Kind::range, run.heap.make<Range>(first, bound.integer_or(1, 0), step).get()};
}

Ref<Dict> dict_of(Run& run, Arguments& arguments, std::string_view name) {
    if (arguments.positional.size() > 1)
        fail("{} takes one value and names, not {} values", name, arguments.positional.size());
    const auto made = run.heap.make<Dict>();
    if (!arguments.positional.empty()) {
        const Datum& from = arguments.positional.front();
        if (from.is(Kind::dict)) {
            made->members = from.as<Dict>().members;
        } else {
            for (const Datum& pair : all_of(run, from)) {
                const std::vector<Datum> both = all_of(run, pair);
                if (both.size() != 2) fail("{} needs pairs of a key and a value", name);
                check_key(both[0]);
                run.step(1 + made->members.size() / 16);
                made->set(both[0], both[1]);
            }
        }
    }
    for (const auto& [key, value] : arguments.named) made->set(key, value);
    return made;
}

Datum dict(Run& run, Arguments& arguments) { return datum(dict_of(run, arguments, "dict")); }

Datum space(Run& run, Arguments& arguments) {
    const auto made = run.heap.make<Space>();
    made->members = dict_of(run, arguments, "namespace");
    for (const auto& [name, value] : made->members->members)
        if (name.is(Kind::text) && name.text().starts_with('_'))
            fail("members of a namespace cannot begin with an underscore: '{}'", name.text());
    return {Kind::space, made.get()};
}

Datum raise_exception(Run&, Arguments& arguments) {
    const Bound bound(arguments, "raise_exception", {"message"}, 1);
    fail(to_text(bound[0]));
}

Datum strftime_now(Run& run, Arguments& arguments) {
    const Bound bound(arguments, "strftime_now", {"format"}, 1);
    return run.heap.text(time_text(run.clock(), bound.text_or(0, "")));
}

struct Cycler : Callable {
    Cycler(Heap& store, std::vector<Datum> values) : Callable(store), items(std::move(values)) {}
    Datum call(Run&, Arguments&) override { fail("a cycler cannot be called: it has next()"); }
    std::string print() const override { return "<cycler>"; }
    Datum attribute(std::string_view name) override;
    std::vector<Datum> items;
    size_t at = 0;
};

Datum cycler_next(Run&, const Datum& self, Arguments&) {
    Cycler& cycler = self.as<Cycler>();
    const Datum item = cycler.items[cycler.at];
    cycler.at = (cycler.at + 1) % cycler.items.size();
    return item;
}
Datum cycler_reset(Run&, const Datum& self, Arguments&) {
    self.as<Cycler>().at = 0;
    return Datum::none();
}

Datum Cycler::attribute(std::string_view name) {
    static constexpr MethodEntry next{"next", cycler_next};
    static constexpr MethodEntry reset{"reset", cycler_reset};
    if (name == "current") return items[at];
    if (name != "next" && name != "reset") return {};
    const Datum self(Kind::callable, this);
    return {Kind::callable, heap.make<Method>(self, name == "next" ? next : reset).get()};
}

Datum cycler(Run& run, Arguments& arguments) {
    if (arguments.positional.empty()) fail("cycler needs values");
    return {Kind::callable, run.heap.make<Cycler>(arguments.positional).get()};
}

struct Joiner : Callable {
    Joiner(Heap& store, Datum between) : Callable(store), separator(std::move(between)) {}
    Datum call(Run&, Arguments&) override {
        static constexpr std::string_view nothing("", 0);
        return std::exchange(used, true) ? separator : Datum(nothing);
    }
    std::string print() const override { return "<joiner>"; }
    Datum separator;
    bool used = false;
};

Datum joiner(Run& run, Arguments& arguments) {
    static constexpr std::string_view comma = ", ";
    const Bound bound(arguments, "joiner", {"sep"});
    return {Kind::callable, run.heap.make<Joiner>(bound.value_or(0, Datum(comma))).get()};
}

// jinja2 draws random words; this returns the same text every time.
Datum lipsum(Run& run, Arguments& arguments) {
    const Bound bound(arguments, "lipsum", {"n", "html", "min", "max"});
    static constexpr std::string_view words =
        "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor "
        "incididunt ut labore et dolore magna aliqua.";
    const int64_t count = std::min<int64_t>(bound.integer_or(0, 5), 1000);
    const bool html = bound.truth_or(1, true);
    std::string text;
    for (int64_t i = 0; i < count; ++i) {
        if (i > 0) text += html ? "\n" : "\n\n";
        text += html ? format_text("<p>{}</p>", words) : std::string(words);
    }
    const Datum made = run.heap.text(std::move(text));
    return html ? made.as_markup() : made;
}

}  // namespace

Datum global(Run& run, std::string_view name) {
    static const std::unordered_map<std::string_view, Function> functions{
        {"range", range},
        {"dict", dict},
        {"namespace", space},
        {"raise_exception", raise_exception},
        {"strftime_now", strftime_now},
        {"cycler", cycler},
        {"joiner", joiner},
        {"lipsum", lipsum},
    };
    const auto found = functions.find(name);
    if (found == functions.end()) return {};
    return {Kind::callable, run.heap.make<GlobalFunction>(found->first, found->second).get()};
}

std::string time_text(const std::tm& time, std::string_view format) {
    std::string prepared;
    for (size_t i = 0; i < format.size(); ++i) {
        if (format[i] != '%' || i + 1 == format.size()) {
            prepared += format[i];
            continue;
        }
        const char kind = format[++i];
        // Handle what strftime does differently: microseconds, and zones, which a local time lacks.
        if (kind == 'f') {
            prepared += "000000";
        } else if (kind != 'z' && kind != 'Z') {
            prepared += '%';
            prepared += kind;
        }
    }
    if (prepared.empty()) return "";
    // The mark distinguishes an empty result from one that does not fit.
    prepared += '|';
    std::string text(256 + 32 * prepared.size(), '\0');
    text.resize(std::strftime(text.data(), text.size(), prepared.c_str(), &time));
    if (!text.empty()) text.pop_back();
    return text;
}

}  // namespace ringshard::text::jinja
