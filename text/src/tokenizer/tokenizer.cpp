#include "ringshard/text/tokenizer.hpp"

#include <algorithm>

#include "encoder.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/utf8.hpp"

namespace ringshard::text {

namespace {

// Enough for the words of most texts.
constexpr size_t most_cached_words = 1 << 15;

AddedToken read_added_token(const Json& token) {
    if (!is_object(token)) refuse("an entry of \"added_tokens\" is not an object");
    return {.content = text_of(token, "content"),
            .single_word = flag_of(token, "single_word"),
            .lstrip = flag_of(token, "lstrip"),
            .rstrip = flag_of(token, "rstrip"),
            .normalized = flag_of(token, "normalized"),
            .special = flag_of(token, "special")};
}

// Returns a part of the file, or its replacement.
const Json* part_of(const Json& file, const Json& replacement, std::string_view key) {
    if (const Json* stated = replacement.find(key)) return stated->is_null() ? nullptr : stated;
    return find(file, key);
}

template <class Part>
Part read_part(const Json& file, const Json& replacement, std::string_view key) {
    const Json* part = part_of(file, replacement, key);
    return part != nullptr ? Part(*part) : Part();
}

const Json& checked(const Json& file) {
    if (!is_object(file)) refuse("is not a JSON object");
    if (find(file, "version") && text_of(file, "version") != "1.0")
        refuse(format_text("has version \"{}\", which is not 1.0", text_of(file, "version")));
    return file;
}

}  // namespace

Tokenizer::Parts::Parts(const Json& file, const Json& replacement)
    : normalizer(read_part<Normalizer>(checked(file), replacement, "normalizer")),
      pre_tokenizer(read_part<PreTokenizer>(file, replacement, "pre_tokenizer")),
      model(get(file, "model"),
            part_of(file, replacement, "model") ? *part_of(file, replacement, "model")
                                                : get(file, "model"),
            pre_tokenizer.is_byte_level()),
      decoder(read_part<Decoder>(file, replacement, "decoder")) {
    if (const Json* processor = part_of(file, replacement, "post_processor"))
        post_processor = read_post_processor(*processor);
    std::vector<AddedToken> tokens;
    const Json& listing = find(replacement, "added_tokens") ? replacement : file;
    if (find(listing, "added_tokens"))
        for (const Json& token : list_of(listing, "added_tokens"))
            tokens.push_back(read_added_token(token));
    added.add(tokens, model.vocabulary(), normalizer);
}

namespace {

Json json_word(const char* text) { return Json(std::string(text)); }

Json words_of(const Tekken& tekken) {
    const Json split(Json::Object{{"type", json_word("Split")},
                                  {"pattern", Json(Json::Object{{"Regex", Json(tekken.pattern)}})},
                                  {"behavior", json_word("Isolated")},
                                  {"invert", Json(false)}});
    const Json bytes(Json::Object{{"type", json_word("ByteLevel")},
                                  {"add_prefix_space", Json(false)},
                                  {"use_regex", Json(false)}});
    return Json(Json::Object{{"type", json_word("Sequence")},
                             {"pretokenizers", Json(Json::List{split, bytes})}});
}

}  // namespace

Tokenizer::Parts::Parts(const Tekken& tekken)
    : pre_tokenizer(words_of(tekken)),
      model(tekken.special, tekken.bytes),
      decoder(Json(Json::Object{{"type", json_word("ByteLevel")}})) {
    std::vector<AddedToken> tokens;
    for (const std::string& text : tekken.special)
        tokens.push_back({.content = text, .normalized = false, .special = true});
    added.add(tokens, model.vocabulary(), normalizer);
}

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Expected<Tokenizer> Tokenizer::from_file(const std::filesystem::path& tokenizer_json) {
    const auto content = read_file(tokenizer_json);
    if (!content)
        return Failure{ExitCode::missing_input,
                       format_text("{}: there is no such file", tokenizer_json.string())};
    return from_json(*content, tokenizer_json.string());
}

Expected<Tokenizer> Tokenizer::from_json(std::string_view json, const std::string& name,
                                         std::string_view replacement) {
    try {
        const auto file = read_json(json);
        if (!file)
            return Failure{ExitCode::bad_data,
                           format_text("{}: is not JSON: {}", name, file.failure().message)};
        if (is_tekken(file.value()))
            return Tokenizer(std::make_unique<Parts>(read_tekken(file.value())));
        const auto instead = read_json(replacement);
        if (!instead || !is_object(instead.value()))
            return Failure{ExitCode::internal, "the value in place of parts is not an object"};
        return Tokenizer(std::make_unique<Parts>(file.value(), instead.value()));
    } catch (const Error& error) {
        return Failure{error.code(), format_text("{}: {}", name, error.what())};
    }
}

Tokenizer::Scratch::Scratch(const Tokenizer& tokenizer)
    : state_(std::make_unique<State>(
          std::min(most_cached_words, 4 * tokenizer.parts_->model.vocabulary().size() + 16))) {}
Tokenizer::Scratch::Scratch(Scratch&&) noexcept = default;
Tokenizer::Scratch& Tokenizer::Scratch::operator=(Scratch&&) noexcept = default;
Tokenizer::Scratch::~Scratch() = default;

namespace {

std::optional<Failure> check_text(std::string_view text) {
    if (text.size() > INT32_MAX)
        return Failure{
            ExitCode::bad_data,
            format_text("a text of {} bytes is longer than 2 GiB: split it", text.size())};
    if (const auto place = first_invalid_byte(text))
        return Failure{ExitCode::bad_data,
                       format_text("the text is not UTF-8: byte {} begins no character", *place)};
    return std::nullopt;
}

}  // namespace

std::optional<Failure> Tokenizer::encode(std::string_view text, SpecialTokens special,
                                         Scratch& scratch, std::vector<int32_t>& ids) const {
    if (auto failure = check_text(text)) return failure;
    const PostProcessor& post = parts_->post_processor;
    const bool adds = special == SpecialTokens::add;
    if (adds) ids.insert(ids.end(), post.before.begin(), post.before.end());
    try {
        Encoder(*parts_, *scratch.state_, ids, nullptr).encode(text);
    } catch (const Error& error) {
        return Failure{error.code(), error.what()};
    }
    if (adds) ids.insert(ids.end(), post.after.begin(), post.after.end());
    return std::nullopt;
}

std::optional<Failure> Tokenizer::encode(std::string_view text, SpecialTokens special,
                                         Scratch& scratch, std::vector<int32_t>& ids,
                                         std::vector<Span>& spans) const {
    if (auto failure = check_text(text)) return failure;
    const PostProcessor& post = parts_->post_processor;
    const bool adds = special == SpecialTokens::add;
    const auto put = [&](const std::vector<int32_t>& tokens) {
        ids.insert(ids.end(), tokens.begin(), tokens.end());
        spans.insert(spans.end(), tokens.size(), Span{});
    };
    if (adds) put(post.before);
    try {
        Encoder(*parts_, *scratch.state_, ids, &spans).encode(text);
    } catch (const Error& error) {
        return Failure{error.code(), error.what()};
    }
    if (adds) put(post.after);
    return std::nullopt;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, Decoding decoding) const {
    std::vector<std::string> tokens;
    tokens.reserve(ids.size());
    for (const int32_t id : ids) {
        auto token = token_of(id);
        if (token && (decoding == Decoding::everything || !is_special(*token)))
            tokens.push_back(std::move(*token));
    }
    return parts_->decoder.decode(std::move(tokens));
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
    auto id = parts_->added.id_of(token);
    if (!id) id = parts_->model.vocabulary().id_of(token);
    if (!id) return std::nullopt;
    return static_cast<int32_t>(*id);
}

std::optional<std::string> Tokenizer::token_of(int32_t id) const {
    if (id < 0) return std::nullopt;
    if (const std::string* const added = parts_->added.written(static_cast<uint32_t>(id)))
        return *added;
    if (const auto token = parts_->model.vocabulary().token_of(static_cast<uint32_t>(id)))
        return std::string(*token);
    return std::nullopt;
}

int64_t Tokenizer::vocab_size() const {
    const Vocabulary& model = parts_->model.vocabulary();
    return static_cast<int64_t>(model.size() + parts_->added.num_outside(model));
}

bool Tokenizer::is_special(std::string_view token) const { return parts_->added.is_special(token); }

std::optional<Failure> Tokenizer::add_tokens(std::span<const AddedToken> tokens) {
    try {
        parts_->added.add(tokens, parts_->model.vocabulary(), parts_->normalizer);
    } catch (const Error& error) {
        return Failure{error.code(), error.what()};
    }
    return std::nullopt;
}

std::vector<std::pair<int32_t, AddedToken>> Tokenizer::added_tokens() const {
    std::vector<std::pair<int32_t, AddedToken>> tokens;
    for (const auto& [id, token] : parts_->added.by_id())
        tokens.emplace_back(static_cast<int32_t>(id), token);
    return tokens;
}

}  // namespace ringshard::text
