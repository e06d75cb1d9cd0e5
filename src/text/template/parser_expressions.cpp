#include <algorithm>

#include "parser.hpp"

namespace ringshard::text::jinja {

const Token& Parser::take() {
    const Token& token = now();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
}

bool Parser::skip_sign(std::string_view sign) {
    if (!now().is_sign(sign)) return false;
    take();
    return true;
}

bool Parser::skip_name(std::string_view name) {
    if (!now().is_name(name)) return false;
    take();
    return true;
}

void Parser::expect_sign(std::string_view sign) {
    if (!skip_sign(sign)) fail_at(now().line, "'", sign, "' is expected, not ", describe(now()));
}

void Parser::expect(TokenKind kind, std::string_view what) {
    if (!now().is(kind)) fail_at(now().line, what, " is expected, not ", describe(now()));
    take();
}

std::string Parser::expect_name() {
    if (!now().is(TokenKind::name))
        fail_at(now().line, "a name is expected, not ", describe(now()));
    return take().text;
}

// Every node passes here when its children are known.
ExpressionPtr Parser::done(ExpressionPtr node) {
    int deepest = 0;
    node->each_child([&](Expression& child) {
        deepest = std::max(deepest, child.depth);
        node->calls = node->calls || child.calls;
    });
    node->depth = deepest + 1;
    if (node->depth > max_depth)
        fail_at(node->line, "an expression has more than ", max_depth, " parts in a row");
    return node;
}

ExpressionPtr Parser::expression(bool conditional) {
    const Deeper deeper(*this);
    ExpressionPtr left = disjunction();
    if (!conditional) return left;
    while (now().is_name("if")) {
        auto choice = std::make_unique<Conditional>(take().line);
        choice->then = std::move(left);
        choice->condition = disjunction();
        if (skip_name("else")) choice->otherwise = expression();
        left = done(std::move(choice));
    }
    return left;
}

ExpressionPtr Parser::disjunction() {
    ExpressionPtr left = conjunction();
    while (now().is_name("or")) {
        auto either = std::make_unique<Logic>(take().line, false);
        either->left = std::move(left);
        either->right = conjunction();
        left = done(std::move(either));
    }
    return left;
}

ExpressionPtr Parser::conjunction() {
    ExpressionPtr left = negation();
    while (now().is_name("and")) {
        auto both = std::make_unique<Logic>(take().line, true);
        both->left = std::move(left);
        both->right = negation();
        left = done(std::move(both));
    }
    return left;
}

ExpressionPtr Parser::negation() {
    if (!now().is_name("not")) return comparison();
    const Deeper deeper(*this);
    auto node = std::make_unique<Unary>(take().line, Unary::What::negation);
    node->of = negation();
    return done(std::move(node));
}

namespace {

std::optional<Relation> relation_of(const Token& token) {
    static constexpr std::array<std::pair<std::string_view, Relation>, 6> relations{
        {{"==", Relation::equal},
         {"!=", Relation::unequal},
         {"<", Relation::less},
         {"<=", Relation::less_equal},
         {">", Relation::more},
         {">=", Relation::more_equal}}};
    for (const auto& [sign, relation] : relations)
        if (token.is_sign(sign)) return relation;
    return std::nullopt;
}

}  // namespace

ExpressionPtr Parser::comparison() {
    auto node = std::make_unique<Comparison>(now().line);
    node->first = sum();
    for (;;) {
        if (const auto relation = relation_of(now())) {
            take();
            node->others.emplace_back(*relation, sum());
        } else if (skip_name("in")) {
            node->others.emplace_back(Relation::in, sum());
        } else if (now().is_name("not") && ahead().is_name("in")) {
            take();
            take();
            node->others.emplace_back(Relation::not_in, sum());
        } else {
            break;
        }
    }
    if (node->others.empty()) return std::move(node->first);
    return done(std::move(node));
}

ExpressionPtr Parser::sum() {
    ExpressionPtr left = joined();
    while (now().is_sign("+") || now().is_sign("-")) {
        const Token& sign = take();
        auto node =
            std::make_unique<Binary>(sign.line, sign.text == "+" ? Sign::add : Sign::subtract);
        node->left = std::move(left);
        node->right = joined();
        left = done(std::move(node));
    }
    return left;
}

ExpressionPtr Parser::joined() {
    ExpressionPtr first = product();
    if (!now().is_sign("~")) return first;
    auto node = std::make_unique<Joined>(now().line);
    node->parts.push_back(std::move(first));
    while (skip_sign("~")) node->parts.push_back(product());
    return done(std::move(node));
}

ExpressionPtr Parser::product() {
    ExpressionPtr left = power();
    for (;;) {
        const bool known =
            now().is_sign("*") || now().is_sign("/") || now().is_sign("//") || now().is_sign("%");
        if (!known) return left;
        const Token& sign = take();
        const Sign what = sign.text == "*"    ? Sign::multiply
                          : sign.text == "/"  ? Sign::divide
                          : sign.text == "//" ? Sign::floor_divide
                                              : Sign::modulo;
        auto node = std::make_unique<Binary>(sign.line, what);
        node->left = std::move(left);
        node->right = power();
        left = done(std::move(node));
    }
}

ExpressionPtr Parser::power() {
    ExpressionPtr left = unary();
    while (now().is_sign("**")) {
        auto node = std::make_unique<Binary>(take().line, Sign::power);
        node->left = std::move(left);
        node->right = unary();
        left = done(std::move(node));
    }
    return left;
}

ExpressionPtr Parser::unary(bool filters) {
    ExpressionPtr node;
    if (now().is_sign("-") || now().is_sign("+")) {
        const Deeper deeper(*this);
        const Token& sign = take();
        auto signed_node = std::make_unique<Unary>(
            sign.line, sign.text == "-" ? Unary::What::negative : Unary::What::positive);
        signed_node->of = unary(false);
        node = done(std::move(signed_node));
    } else {
        node = primary();
    }
    node = postfix(std::move(node));
    return filters ? filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::name_or_constant(bool with_members) {
    const Token& token = take();
    if (token.text == "true" || token.text == "True")
        return std::make_unique<Constant>(token.line, Datum(true));
    if (token.text == "false" || token.text == "False")
        return std::make_unique<Constant>(token.line, Datum(false));
    if (token.text == "none" || token.text == "None")
        return std::make_unique<Constant>(token.line, Datum::none());
    if (with_members && skip_sign("."))
        return std::make_unique<SpaceMember>(token.line, token.text, expect_name());
    uses_.push_back({token.text, false});
    return std::make_unique<Name>(token.line, token.text);
}

ExpressionPtr Parser::primary(bool with_members) {
    const Token& token = now();
    switch (token.kind) {
        case TokenKind::name: return name_or_constant(with_members);
        case TokenKind::text: {
            std::string whole;
            while (now().is(TokenKind::text)) whole += take().text;
            return std::make_unique<Constant>(token.line, std::move(whole));
        }
        case TokenKind::integer:
            return std::make_unique<Constant>(token.line, Datum(take().integer));
        case TokenKind::real: return std::make_unique<Constant>(token.line, Datum(take().real));
        default: break;
    }
    const Deeper deeper(*this);
    if (skip_sign("(")) {
        ExpressionPtr inner = tuple({.in_parentheses = true});
        expect_sign(")");
        return inner;
    }
    if (token.is_sign("[")) return list();
    if (token.is_sign("{")) return dict();
    fail_at(token.line, "an expression is expected, not ", describe(token));
}

ExpressionPtr Parser::tuple(const TupleRules& rules) {
    auto node = std::make_unique<Sequence>(now().line, true);
    bool is_tuple = false;
    for (;;) {
        if (!node->items.empty()) expect_sign(",");
        const Token& token = now();
        if (token.is(TokenKind::print_end) || token.is(TokenKind::tag_end) || token.is_sign(")") ||
            (!rules.end.empty() && token.is_name(rules.end)))
            break;
        node->items.push_back(rules.only_targets ? primary(rules.with_members)
                                                 : expression(rules.conditional));
        if (!now().is_sign(",")) break;
        is_tuple = true;
    }
    if (!is_tuple) {
        if (!node->items.empty()) return std::move(node->items.front());
        if (!rules.in_parentheses)
            fail_at(now().line, "an expression is expected, not ", describe(now()));
    }
    return done(std::move(node));
}

ExpressionPtr Parser::list() {
    auto node = std::make_unique<Sequence>(take().line, false);
    while (!now().is_sign("]")) {
        if (!node->items.empty()) expect_sign(",");
        if (now().is_sign("]")) break;
        node->items.push_back(expression());
    }
    take();
    return done(std::move(node));
}

ExpressionPtr Parser::dict() {
    auto node = std::make_unique<DictOf>(take().line);
    while (!now().is_sign("}")) {
        if (!node->members.empty()) expect_sign(",");
        if (now().is_sign("}")) break;
        ExpressionPtr key = expression();
        expect_sign(":");
        node->members.emplace_back(std::move(key), expression());
    }
    take();
    return done(std::move(node));
}

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
            fail_at(name.line, "a name or a number is expected after '.', not ", describe(name));
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
                if (other == name) fail_at(line, "the argument '", name, "' is given twice");
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
