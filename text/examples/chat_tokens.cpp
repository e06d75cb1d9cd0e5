// Prints the tokens of a question as a chat model receives them: chat_tokens FOLDER QUESTION
#include <iostream>

#include "ringshard/text/chat_template.hpp"
#include "ringshard/text/tokenizer_folder.hpp"

using namespace ringshard;
using namespace ringshard::text;

namespace {

Expected<std::vector<int32_t>> chat_tokens(const std::filesystem::path& path,
                                           const char* question) {
    auto folder = TokenizerFolder::read(path);
    if (!folder) return folder.failure();
    const auto source = folder.value().chat_template(false);
    if (!source)
        return Failure{ExitCode::bad_data, format_text("{} has no chat template", path.string())};
    auto chat = ChatTemplate::parse(*source, "chat template");
    if (!chat) return chat.failure();

    Value message{Value::Object{}};
    message.set("role", Value(std::string("user")));
    message.set("content", Value(std::string(question)));
    Value::Object variables;
    for (const auto& [name, token] : folder.value().special_tokens)
        variables.emplace_back(name, Value(token));
    const auto rendered = chat.value().render(
        {.messages = {&message, 1}, .variables = &variables, .add_generation_prompt = true});
    if (!rendered) return rendered.failure();

    const Tokenizer& tokenizer = folder.value().tokenizer;
    Tokenizer::Scratch scratch(tokenizer);
    std::vector<int32_t> ids;
    if (auto failure =
            tokenizer.encode(rendered.value().text, SpecialTokens::leave_out, scratch, ids))
        return *failure;
    return ids;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: chat_tokens FOLDER QUESTION\n";
        return 64;
    }
    const auto ids = chat_tokens(argv[1], argv[2]);
    if (!ids) {
        std::cerr << ids.failure().message << "\n";
        return static_cast<int>(ids.failure().code);
    }
    for (const int32_t id : ids.value()) std::cout << id << " ";
    std::cout << "\n";
}
