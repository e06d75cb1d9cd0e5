#include "parser.hpp"

namespace ringshard::text::jinja {

ExpressionPtr Parser::postfix(ExpressionPtr of) {
    for (;;) {
        if (now().is_sign(".") || now().is_sign("[")) {
            of = subscript(std::move(of));
        } else if (now().is_sign("(")) {
            of = call(std::move(of));
        } else {
            return of;
        }
    }
}

ExpressionPtr Parser::subscript(ExpressionPtr of) {
    const Token& sign = take();
    if (sign.text == ".") {
        const Token& name = take();
        if (name.is(TokenKind::integer)) {
            auto node = std::make_unique<Element>(sign.line);
            node->of = std::move(of);
            node->index = std::make_unique<Constant>(name.line, Datum(name.integer));
            return done(std::move(node));
        }
        if (!name.is(TokenKind::name))
            fail_at(name.line, "a name or a number is expected after '.', not {}", describe(name));
        auto node = std::make_unique<Attribute>(sign.line);
        node->of = std::move(of);
        node->name = name.text;
        return done(std::move(node));
    }
    const Deeper deeper(*this);
    auto node = std::make_unique<Element>(sign.line);
    auto indices = std::make_unique<Sequence>(sign.line, true);
    while (!now().is_sign("]")) {
        if (!indices->items.empty()) expect_sign(",");
        indices->items.push_back(slice_or_index());
    }
    take();
    node->of = std::move(of);
    node->index =
        indices->items.size() == 1 ? std::move(indices->items.front()) : done(std::move(indices));
    return done(std::move(node));
}

ExpressionPtr Parser::slice_or_index() {
    auto slice = std::make_unique<Slice>(now().line);
    const auto ends = [&] { return now().is_sign("]") || now().is_sign(","); };
    if (!skip_sign(":")) {
        ExpressionPtr index = expression();
        if (!skip_sign(":")) return index;
        slice->start = std::move(index);
    }
    if (!now().is_sign(":") && !ends()) slice->stop = expression();
    if (skip_sign(":") && !ends()) slice->step = expression();
    return done(std::move(slice));
}

ExpressionPtr Parser::filters_and_tests(ExpressionPtr of) {
    for (;;) {
        if (now().is_sign("|")) {
            of = filter(std::move(of));
        } else if (now().is_name("is")) {
            of = test(std::move(of));
        } else if (now().is_sign("(")) {
            of = call(std::move(of));
        } else {
            return of;
        }
    }
}

std::string Parser::dotted_name() {
    std::string name = expect_name();
    while (skip_sign(".")) name += "." + expect_name();
    return name;
}

ExpressionPtr Parser::filter(ExpressionPtr input) {
    while (skip_sign("|")) input = one_filter(std::move(input));
    return input;
}

ExpressionPtr Parser::one_filter(ExpressionPtr input) {
    auto node = std::make_unique<FilterUse>(now().line);
    node->input = std::move(input);
    node->name = dotted_name();
    if (now().is_sign("(")) node->arguments = call_arguments();
    return done(std::move(node));
}

ExpressionPtr Parser::test(ExpressionPtr input) {
    auto node = std::make_unique<TestUse>(take().line);
    const bool negated = skip_name("not");
    node->input = std::move(input);
    node->name = dotted_name();
    const Token& next = now();
    const bool is_value = next.is(TokenKind::name) || next.is(TokenKind::text) ||
                          next.is(TokenKind::integer) || next.is(TokenKind::real) ||
                          next.is_sign("[") || next.is_sign("{");
    if (next.is_sign("(")) {
        node->arguments = call_arguments();
    } else if (is_value && !next.is_name("else") && !next.is_name("or") && !next.is_name("and")) {
        if (next.is_name("is")) fail_at(next.line, "tests cannot follow each other: use 'and'");
        ExpressionPtr argument = primary();
        node->arguments.positional.push_back(postfix(std::move(argument)));
    }
    const int line = node->line;
    ExpressionPtr result = done(std::move(node));
    if (!negated) return result;
    auto opposite = std::make_unique<Unary>(line, Unary::What::negation);
    opposite->of = std::move(result);
    return done(std::move(opposite));
}

ExpressionPtr Parser::call(ExpressionPtr callee) {
    auto node = std::make_unique<Call>(now().line);
    node->callee = std::move(callee);
    node->arguments = call_arguments();
    return done(std::move(node));
}

CallArguments Parser::call_arguments() {
    const Deeper deeper(*this);
    const int line = take().line;
    CallArguments arguments;
    const auto in_order = [line](bool right) {
        if (!right) fail_at(line, "the arguments of the call are in the wrong order");
    };
    for (bool first = true; !now().is_sign(")"); first = false) {
        if (!first) expect_sign(",");
        if (now().is_sign(")")) break;
        if (skip_sign("*")) {
            in_order(!arguments.more_positional && !arguments.more_named);
            arguments.more_positional = expression();
        } else if (skip_sign("**")) {
            in_order(!arguments.more_named);
            arguments.more_named = expression();
        } else if (now().is(TokenKind::name) && ahead().is_sign("=")) {
            in_order(!arguments.more_named);
            std::string name = take().text;
            take();
            for (const auto& [other, value] : arguments.named)
                if (other == name) fail_at(line, "the argument '{}' is given twice", name);
            arguments.named.emplace_back(std::move(name), expression());
        } else {
            in_order(!arguments.more_positional && !arguments.more_named &&
                     arguments.named.empty());
            arguments.positional.push_back(expression());
        }
    }
    take();
    return arguments;
}

}  // namespace ringshard::text::jinja
