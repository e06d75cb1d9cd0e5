#include "parser.hpp"

#include <algorithm>

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
    if (!skip_sign(sign)) fail_at(now().line, "'{}' is expected, not {}", sign, describe(now()));
}

void Parser::expect(TokenKind kind, std::string_view what) {
    if (!now().is(kind)) fail_at(now().line, "{} is expected, not {}", what, describe(now()));
    take();
}

std::string Parser::expect_name() {
    if (!now().is(TokenKind::name))
        fail_at(now().line, "a name is expected, not {}", describe(now()));
    return take().text;
}

// Completes every node once its children are known.
ExpressionPtr Parser::done(ExpressionPtr node) {
    int deepest = 0;
    node->each_child([&](Expression& child) {
        deepest = std::max(deepest, child.depth);
        node->calls = node->calls || child.calls;
    });
    node->depth = deepest + 1;
    if (node->depth > max_depth)
        fail_at(node->line, "an expression has more than {} parts in a row", max_depth);
    return node;
}

}  // namespace ringshard::text::jinja
