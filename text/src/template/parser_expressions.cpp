#include <array>

#include "parser.hpp"

namespace ringshard::text::jinja {

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
    fail_at(token.line, "an expression is expected, not {}", describe(token));
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
            fail_at(now().line, "an expression is expected, not {}", describe(now()));
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

}  // namespace ringshard::text::jinja
