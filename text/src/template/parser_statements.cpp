#include <algorithm>

#include "binder.hpp"
#include "parser.hpp"

namespace ringshard::text::jinja {

Program Parser::run() {
    Program program;
    program.body = body_until({});
    program.marks_assistant = marks_assistant_;
    return program;
}

// Parses up to a tag with a name in `ends`, which is then the current token; without ends up to the
// end of the template.
Body Parser::body_until(const Ends& ends) {
    awaited_.push_back(&ends);
    Body body;
    std::unique_ptr<Output> output;
    const auto flush = [&] {
        if (output) body.push_back(std::move(output));
    };
    const auto part = [&](ExpressionPtr expression) {
        if (!output) output = std::make_unique<Output>(expression->line);
        output->parts.push_back(std::move(expression));
    };
    for (;;) {
        const Token& token = now();
        if (token.is(TokenKind::data)) {
            auto verbatim = std::make_unique<Constant>(token.line, take().text);
            verbatim->is_verbatim = true;
            part(std::move(verbatim));
        } else if (token.is(TokenKind::print_begin)) {
            take();
            part(tuple({}));
            expect(TokenKind::print_end, "the end of the expression, }},");
        } else if (token.is(TokenKind::tag_begin)) {
            flush();
            take();
            if (now().is(TokenKind::name) && std::ranges::find(ends, now().text) != ends.end())
                break;
            body.push_back(statement());
            expect(TokenKind::tag_end, "the end of the tag, %},");
        } else if (!ends.empty()) {
            fail_at(token.line, "the template ends inside {{% {} %}}: {{% {} %}} is missing",
                    open_tags_.back(), ends.back());
        } else {
            break;
        }
    }
    flush();
    awaited_.pop_back();
    return body;
}

Body Parser::block(std::string_view end) {
    skip_sign(":");
    expect(TokenKind::tag_end, "the end of the tag, %},");
    Body body = body_until({end});
    take();
    return body;
}

void Parser::fail_unknown_tag(const Token& tag) {
    for (const std::string_view refused : {"include", "import", "from", "extends"})
        if (tag.text == refused)
            fail_at(tag.line, "{{% {} %}} is not supported: a chat template is one file", refused);
    std::string awaited;
    if (!awaited_.empty() && !awaited_.back()->empty())
        awaited = format_text(" ({{% {} %}} is awaited)", awaited_.back()->back());
    fail_at(tag.line, "the tag {{% {} %}} is not known here{}", tag.text, awaited);
}

StatementPtr Parser::statement() {
    const Deeper deeper(*this);
    const Token& tag = now();
    if (!tag.is(TokenKind::name))
        fail_at(tag.line, "the name of a tag is expected, not {}", describe(tag));
    take();
    open_tags_.push_back(tag.text);
    StatementPtr made = known_statement(tag);
    open_tags_.pop_back();
    return made;
}

StatementPtr Parser::known_statement(const Token& tag) {
    if (tag.text == "if") return if_statement();
    if (tag.text == "for") return for_statement();
    if (tag.text == "set") return set_statement();
    if (tag.text == "macro") return macro_statement();
    if (tag.text == "call") return call_statement();
    if (tag.text == "filter") return filter_statement();
    if (tag.text == "with") return with_statement();
    if (tag.text == "autoescape") return autoescape_statement();
    if (tag.text == "generation") return generation_statement();
    if (tag.text == "block") return block_statement();
    if (tag.text == "print") return print_statement();
    if (tag.text == "break") return std::make_unique<Leave>(tag.line, false);
    if (tag.text == "continue") return std::make_unique<Leave>(tag.line, true);
    fail_unknown_tag(tag);
}

StatementPtr Parser::if_statement() {
    auto node = std::make_unique<If>(now().line);
    for (;;) {
        ExpressionPtr condition = tuple({.conditional = false});
        skip_sign(":");
        expect(TokenKind::tag_end, "the end of the tag, %},");
        node->branches.emplace_back(std::move(condition), body_until({"elif", "else", "endif"}));
        const Token& next = take();
        if (next.text == "elif") continue;
        if (next.text == "else") node->otherwise = block("endif");
        return node;
    }
}

StatementPtr Parser::for_statement() {
    auto node = std::make_unique<For>(now().line);
    const size_t first_use = uses_.size();
    const size_t target_begin = at_;
    node->target = target(false, false, "in");
    if (!skip_name("in")) fail_at(now().line, "'in' is expected, not {}", describe(now()));
    node->over = tuple({.conditional = false, .end = "recursive"});
    if (skip_name("if")) {
        node->condition = expression();
        // The condition has its own copy of the target's variables: parse the target again.
        const size_t back = at_;
        at_ = target_begin;
        node->condition_target = target(false, false, "in");
        at_ = back;
    }
    node->recursive = skip_name("recursive");
    skip_sign(":");
    expect(TokenKind::tag_end, "the end of the tag, %},");
    const size_t body_use = uses_.size();
    node->body = body_until({"else", "endfor"});
    const auto is_loop = [](const Use& use) { return use.name == "loop"; };
    const auto use =
        std::find_if(uses_.begin() + static_cast<ptrdiff_t>(body_use), uses_.end(), is_loop);
    node->uses_loop = node->recursive || (use != uses_.end() && !use->sets);
    if (take().text == "else") node->otherwise = block("endfor");
    for (size_t i = first_use; i < uses_.size(); ++i)
        if (uses_[i].sets && is_loop(uses_[i]))
            fail_at(node->line, "'loop' cannot be set inside a for loop");
    return node;
}

void Parser::note_set_names(const Expression& target) {
    if (const auto* name = dynamic_cast<const Name*>(&target)) uses_.push_back({name->name, true});
    if (const auto* names = dynamic_cast<const Sequence*>(&target))
        for (const auto& item : names->items) note_set_names(*item);
}

ExpressionPtr Parser::target(bool only_name, bool with_members, std::string_view end) {
    const int line = now().line;
    const size_t before = uses_.size();
    ExpressionPtr result;
    if (only_name) {
        result = std::make_unique<Name>(line, expect_name());
    } else {
        result = tuple({.only_targets = true, .with_members = with_members, .end = end});
    }
    uses_.resize(before);
    if (!can_be_set(*result)) fail_at(line, "only names can be set");
    note_set_names(*result);
    return result;
}

StatementPtr Parser::set_statement() {
    const int line = now().line;
    ExpressionPtr what = target(false, true);
    if (skip_sign("=")) {
        auto node = std::make_unique<Set>(line);
        node->target = std::move(what);
        node->value = tuple({});
        return node;
    }
    auto node = std::make_unique<SetBlock>(line);
    node->target = std::move(what);
    node->filter = filter(nullptr);
    node->body = block("endset");
    return node;
}

void Parser::signature(MacroBody& macro) {
    expect_sign("(");
    while (!now().is_sign(")")) {
        if (!macro.parameters.empty()) expect_sign(",");
        const int line = now().line;
        const std::string name = expect_name();
        if (std::ranges::find(macro.parameters, name) != macro.parameters.end())
            fail_at(line, "the parameter '{}' is there twice", name);
        if (!can_be_set(Name(line, name))) fail_at(line, "'{}' cannot be a parameter", name);
        macro.parameters.push_back(name);
        if (skip_sign("=")) {
            macro.defaults.push_back(expression());
        } else if (!macro.defaults.empty()) {
            fail_at(line, "the parameter '{}' without a default follows one with a default", name);
        }
    }
    take();
}

// Records which special variables the macro's body reads.
void Parser::note_specials(MacroBody& macro, size_t first_use, int line) {
    const auto reads = [&](std::string_view special) {
        for (size_t i = first_use; i < uses_.size(); ++i)
            if (uses_[i].name == special) return !uses_[i].sets;
        return false;
    };
    const auto parameter = std::ranges::find(macro.parameters, "caller");
    macro.uses_caller = reads("caller");
    macro.caller_is_parameter = parameter != macro.parameters.end();
    const auto after = static_cast<size_t>(macro.parameters.end() - parameter);
    if (macro.uses_caller && macro.caller_is_parameter && after > macro.defaults.size())
        fail_at(line, "the parameter 'caller' of a macro needs a default");
    const auto is_parameter = [&](std::string_view name) {
        return std::ranges::find(macro.parameters, name) != macro.parameters.end();
    };
    macro.uses_kwargs = reads("kwargs") && !is_parameter("kwargs");
    macro.uses_varargs = reads("varargs") && !is_parameter("varargs");
}

StatementPtr Parser::macro_statement() {
    auto node = std::make_unique<Macro>(now().line);
    const auto name = target(true, false);
    node->macro.name = static_cast<const Name&>(*name).name;
    signature(node->macro);
    const size_t first_use = uses_.size();
    node->macro.body = block("endmacro");
    note_specials(node->macro, first_use, node->line);
    return node;
}

StatementPtr Parser::call_statement() {
    auto node = std::make_unique<CallBlock>(now().line);
    node->caller.name = "caller";
    if (now().is_sign("(")) signature(node->caller);
    const int line = now().line;
    ExpressionPtr called = expression();
    if (dynamic_cast<Call*>(called.get()) == nullptr)
        fail_at(line, "{% call %} needs a call, as in {% call box('title') %}");
    node->call.reset(static_cast<Call*>(called.release()));
    const size_t first_use = uses_.size();
    node->caller.body = block("endcall");
    note_specials(node->caller, first_use, node->line);
    return node;
}

StatementPtr Parser::filter_statement() {
    auto node = std::make_unique<Scoped>(now().line, Scoped::Kind::filter);
    node->filter = filter(one_filter(nullptr));
    node->body = block("endfilter");
    return node;
}

StatementPtr Parser::with_statement() {
    auto node = std::make_unique<Scoped>(now().line, Scoped::Kind::with);
    while (!now().is(TokenKind::tag_end)) {
        if (!node->variables.empty()) expect_sign(",");
        ExpressionPtr what = target(false, false);
        expect_sign("=");
        node->variables.emplace_back(std::move(what), expression());
    }
    node->body = block("endwith");
    return node;
}

StatementPtr Parser::autoescape_statement() {
    auto node = std::make_unique<Scoped>(now().line, Scoped::Kind::autoescape);
    node->filter = expression();
    node->body = block("endautoescape");
    return node;
}

StatementPtr Parser::generation_statement() {
    auto node = std::make_unique<Scoped>(now().line, Scoped::Kind::generation);
    node->body = block("endgeneration");
    marks_assistant_ = true;
    return node;
}

// A named block matters only to templates that extend others: render its content.
StatementPtr Parser::block_statement() {
    auto node = std::make_unique<Scoped>(now().line, Scoped::Kind::named);
    const std::string name = expect_name();
    if (open_tags_.size() > 1)
        fail_at(node->line, "{{% block {} %}} inside {{% {} %}} is not supported", name,
                open_tags_[open_tags_.size() - 2]);
    if (std::ranges::find(block_names_, name) != block_names_.end())
        fail_at(node->line, "the block '{}' is there twice", name);
    block_names_.push_back(name);
    skip_name("scoped");
    if (now().is_name("required")) fail_at(node->line, "required blocks are not supported");
    node->body = block("endblock");
    skip_name(name);
    return node;
}

StatementPtr Parser::print_statement() {
    auto node = std::make_unique<Output>(now().line);
    while (!now().is(TokenKind::tag_end)) {
        if (!node->parts.empty()) expect_sign(",");
        node->parts.push_back(expression());
    }
    return node;
}

bool can_be_set(const Expression& target) {
    if (const auto* name = dynamic_cast<const Name*>(&target)) {
        static constexpr std::array constants{"true", "false", "none", "True", "False", "None"};
        return std::ranges::find(constants, name->name) == constants.end();
    }
    if (const auto* names = dynamic_cast<const Sequence*>(&target))
        return names->is_tuple && std::ranges::all_of(names->items, [](const auto& item) {
                   return can_be_set(*item);
               });
    return dynamic_cast<const SpaceMember*>(&target) != nullptr;
}

}  // namespace ringshard::text::jinja
