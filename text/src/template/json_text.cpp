#include <algorithm>
#include <cmath>

#include "compare.hpp"
#include "failing.hpp"
#include "json_quote.hpp"
#include "printing.hpp"

// JSON in the format of Python's json.dumps.
namespace ringshard::text::jinja {

namespace {

class Writer {
public:
    explicit Writer(const JsonStyle& style) : style_(style) {}
    std::string text;

    void write(const Datum& value) {
        switch (value.kind()) {
            case Kind::none: text += "null"; break;
            case Kind::boolean: text += value.truth() ? "true" : "false"; break;
            case Kind::integer: text += std::to_string(value.integer()); break;
            case Kind::large: text += std::to_string(value.large()); break;
            case Kind::real: text += real(value.real()); break;
            case Kind::text: append_quoted_json(text, value.text(), style_.ascii); break;
            case Kind::list:
            case Kind::tuple: write_list(value.items()); break;
            case Kind::dict: write_dict(value.as<Dict>().members); break;
            case Kind::undefined:
                fail("an undefined value cannot be written as JSON: give it a default");
            default: fail("a {} cannot be written as JSON", type_name(value));
        }
    }

private:
    static std::string real(double value) {
        if (std::isnan(value)) return "NaN";
        if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
        return real_repr(value);
    }

    void line() {
        if (!style_.indented) return;
        text += '\n';
        for (int i = 0; i < depth_; ++i) text += style_.indent;
    }

    void enter() {
        if (++depth_ > max_data_depth) fail("data is nested more than {} deep", max_data_depth);
    }

    void write_list(const std::vector<Datum>& items) {
        text += '[';
        if (!items.empty()) {
            enter();
            for (size_t i = 0; i < items.size(); ++i) {
                if (i > 0) text += style_.item_separator;
                line();
                write(items[i]);
            }
            --depth_;
            line();
        }
        text += ']';
    }

    void write_key(const Datum& key) {
        switch (key.kind()) {
            case Kind::text: return append_quoted_json(text, key.text(), style_.ascii);
            case Kind::none:
            case Kind::boolean:
            case Kind::integer:
            case Kind::large:
            case Kind::real:
                text += '"';
                write(key);
                text += '"';
                return;
            default: fail("a {} cannot be the name of a member in JSON", type_name(key));
        }
    }

    void write_dict(const std::vector<Member>& members) {
        std::vector<const Member*> ordered;
        for (const Member& member : members) ordered.push_back(&member);
        if (style_.sorted)
            std::ranges::stable_sort(
                ordered, [](const Member* a, const Member* b) { return less(a->first, b->first); });
        text += '{';
        if (!ordered.empty()) {
            enter();
            for (size_t i = 0; i < ordered.size(); ++i) {
                if (i > 0) text += style_.item_separator;
                line();
                write_key(ordered[i]->first);
                text += style_.member_separator;
                write(ordered[i]->second);
            }
            --depth_;
            line();
        }
        text += '}';
    }

    const JsonStyle& style_;
    int depth_ = 0;
};

}  // namespace

std::string json(const Datum& value, const JsonStyle& style) {
    Writer writer(style);
    writer.write(value);
    return std::move(writer.text);
}

}  // namespace ringshard::text::jinja
