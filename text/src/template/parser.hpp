#pragma once

#include <string_view>
#include <vector>

#include "lexer.hpp"
#include "nodes.hpp"

namespace ringshard::text::jinja {

// A recursive-descent parser of jinja2's grammar. Failures carry the template's line.
class Parser {
public:
    explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}
    Program run();

private:
    // Statements: parser_statements.cpp.
    using Ends = std::vector<std::string_view>;
    Body body_until(const Ends& ends);
    Body block(std::string_view end);  // from the tag's end to after the name of the end tag
    StatementPtr statement();
    StatementPtr known_statement(const Token& tag);
    StatementPtr if_statement();
    StatementPtr for_statement();
    StatementPtr set_statement();
    StatementPtr macro_statement();
    StatementPtr call_statement();
    StatementPtr filter_statement();
    StatementPtr with_statement();
    StatementPtr autoescape_statement();
    StatementPtr generation_statement();
    StatementPtr block_statement();
    StatementPtr print_statement();
    void signature(MacroBody& macro);
    void note_specials(MacroBody& macro, size_t first_use, int line);
    ExpressionPtr target(bool only_name, bool with_members, std::string_view end = {});
    void note_set_names(const Expression& target);
    [[noreturn]] void fail_unknown_tag(const Token& tag);

    // Expressions: parser_expressions.cpp.
    ExpressionPtr expression(bool conditional = true);
    ExpressionPtr disjunction();
    ExpressionPtr conjunction();
    ExpressionPtr negation();
    ExpressionPtr comparison();
    ExpressionPtr sum();
    ExpressionPtr joined();
    ExpressionPtr product();
    ExpressionPtr power();
    ExpressionPtr unary(bool filters = true);
    ExpressionPtr primary(bool with_members = false);
    ExpressionPtr name_or_constant(bool with_members);
    struct TupleRules {
        bool only_targets = false;
        bool conditional = true;
        bool in_parentheses = false;
        bool with_members = false;
        std::string_view end = {};
    };
    ExpressionPtr tuple(const TupleRules& rules);
    ExpressionPtr list();
    ExpressionPtr dict();

    // Postfixes: members, calls, filters and tests (parser_postfixes.cpp).
    ExpressionPtr postfix(ExpressionPtr of);
    ExpressionPtr subscript(ExpressionPtr of);
    ExpressionPtr slice_or_index();
    ExpressionPtr filters_and_tests(ExpressionPtr of);
    ExpressionPtr filter(ExpressionPtr input);
    ExpressionPtr one_filter(ExpressionPtr input);
    ExpressionPtr test(ExpressionPtr input);
    ExpressionPtr call(ExpressionPtr callee);
    CallArguments call_arguments();
    std::string dotted_name();

    // Tokens and complete nodes: parser.cpp.
    ExpressionPtr done(ExpressionPtr node);
    const Token& now() const { return tokens_[at_]; }
    const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    const Token& take();
    bool skip_sign(std::string_view sign);
    bool skip_name(std::string_view name);
    void expect_sign(std::string_view sign);
    void expect(TokenKind kind, std::string_view what);
    std::string expect_name();

    // Maximum recursion of the parser, and depth of its tree.
    static constexpr int max_nesting = 100;
    static constexpr int max_depth = 500;
    class Deeper;

    // A read or write of a name, in the order of the text.
    struct Use {
        std::string name;
        bool sets;
    };

    std::vector<Token> tokens_;
    size_t at_ = 0;
    int nesting_ = 0;
    std::vector<Use> uses_;
    std::vector<const Ends*> awaited_;
    std::vector<std::string> open_tags_;
    std::vector<std::string> block_names_;
    bool marks_assistant_ = false;
};

class Parser::Deeper {
public:
    explicit Deeper(Parser& parser) : parser_(parser) {
        if (++parser_.nesting_ > max_nesting)
            fail_at(parser_.now().line, "expressions and blocks are nested more than {} deep",
                    max_nesting);
    }
    ~Deeper() { --parser_.nesting_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

private:
    Parser& parser_;
};

}  // namespace ringshard::text::jinja
