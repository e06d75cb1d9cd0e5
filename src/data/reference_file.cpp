#include <cmath>
#include <limits>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/data/reference_rows.hpp"

// verify.json as text.
namespace ringshard::data {

namespace {

using text::Value;

Value whole(int64_t number) { return Value(number); }

Value to_value(const LikelyOfPlaces& places) {
    constexpr double digits = 1e6;
    Value::List all;
    for (const LikelyTokens& likely : places) {
        Value::List of_place;
        for (const auto& [token, log_probability] : likely)
            of_place.emplace_back(
                Value::List{whole(token), Value(std::round(log_probability * digits) / digits)});
        all.emplace_back(std::move(of_place));
    }
    return Value(std::move(all));
}

Value to_value(const ReferenceRow& row) {
    Value::Object members;
    if (!row.text.empty()) members.emplace_back("text", Value(row.text));
    if (row.messages.list() != nullptr) {
        members.emplace_back("messages", row.messages);
        members.emplace_back("add_generation_prompt", Value(row.adds_generation_prompt));
        members.emplace_back("rendered", Value(row.rendered));
    }
    Value::List places;
    for (const int64_t place : row.places) places.push_back(whole(place));
    members.emplace_back("ids", text::to_list(row.tokens));
    members.emplace_back("positions", Value(std::move(places)));
    members.emplace_back("likely", to_value(row.likely));
    return Value(std::move(members));
}

// Reads members; what is missing or of another type makes the file a bad one.
class MemberReader {
public:
    const Value& member(const Value& object, const char* name) {
        static const Value null;
        const Value* found = object.find(name);
        is_good = is_good && found != nullptr;
        return found != nullptr ? *found : null;
    }
    const Value::List& list(const Value& value) {
        static const Value::List none;
        is_good = is_good && value.list() != nullptr;
        return value.list() != nullptr ? *value.list() : none;
    }
    std::string string(const Value& value) {
        is_good = is_good && value.string() != nullptr;
        return value.string() != nullptr ? *value.string() : std::string();
    }
    bool truth(const Value& value) {
        is_good = is_good && value.truth() != nullptr;
        return value.truth() != nullptr && *value.truth();
    }
    int64_t integer(const Value& value) {
        is_good = is_good && value.integer() != nullptr && *value.integer() >= 0;
        return is_good ? *value.integer() : 0;
    }
    double real(const Value& value) {
        if (value.real() != nullptr) return *value.real();
        is_good = is_good && value.integer() != nullptr;
        return value.integer() != nullptr ? static_cast<double>(*value.integer()) : 0;
    }
    LikelyOfPlaces likely(const Value& value) {
        LikelyOfPlaces places;
        for (const Value& of_place : list(value)) {
            LikelyTokens tokens;
            for (const Value& pair : list(of_place)) {
                const Value::List& both = list(pair);
                is_good = is_good && both.size() == 2;
                if (!is_good) return {};
                tokens.push_back({token(both[0]), real(both[1])});
            }
            places.push_back(std::move(tokens));
        }
        return places;
    }
    // A number of a token, or of tokens.
    int32_t token(const Value& value) {
        const int64_t number = integer(value);
        is_good = is_good && number >= 0 && number <= std::numeric_limits<int32_t>::max();
        return is_good ? static_cast<int32_t>(number) : 0;
    }
    ReferenceRow row(const Value& value) {
        ReferenceRow read;
        if (value.find("text") != nullptr) read.text = string(member(value, "text"));
        if (value.find("messages") != nullptr) {
            read.messages = Value(list(member(value, "messages")));
            read.adds_generation_prompt = truth(member(value, "add_generation_prompt"));
            read.rendered = string(member(value, "rendered"));
        }
        for (const Value& id : list(member(value, "ids"))) read.tokens.push_back(token(id));
        for (const Value& place : list(member(value, "positions"))) {
            read.places.push_back(integer(place));
            is_good = is_good && read.places.back() < std::ssize(read.tokens);
        }
        read.likely = likely(member(value, "likely"));
        // Without likely tokens as long as no model has computed them.
        is_good = is_good && !read.tokens.empty() &&
                  (read.likely.empty() || read.likely.size() == read.places.size());
        return read;
    }

    bool is_good = true;
};

}  // namespace

std::string References::to_json() const {
    Value::List all;
    for (const ReferenceRow& row : rows) all.push_back(to_value(row));
    Value::List wrong;
    for (const auto& [name, likely] : mistakes) {
        Value::List of_rows;
        for (const LikelyOfPlaces& of_row : likely) of_rows.push_back(to_value(of_row));
        wrong.emplace_back(Value::Object{{"name", Value(name)}, {"likely", Value(of_rows)}});
    }
    return text::to_json(Value(Value::Object{{"weights", Value(weights)},
                                             {"computed", Value(computed)},
                                             {"exact", Value(is_exact)},
                                             {"tied", Value(is_tied)},
                                             {"vocab_size", whole(vocab_size)},
                                             {"hashed_at_once", whole(hashed_at_once)},
                                             {"vocabulary", text::to_list(vocabulary)},
                                             {"rows", Value(std::move(all))},
                                             {"mistakes", Value(std::move(wrong))}})) +
           "\n";
}

Expected<References> References::parse(std::string_view json, const std::string& name) {
    const auto value = text::read_json(json);
    MemberReader reader;
    References read;
    if (value) {
        const Value& file = value.value();
        read.weights = reader.string(reader.member(file, "weights"));
        read.computed = reader.string(reader.member(file, "computed"));
        read.is_exact = reader.truth(reader.member(file, "exact"));
        read.is_tied = reader.truth(reader.member(file, "tied"));
        read.vocab_size = reader.token(reader.member(file, "vocab_size"));
        read.hashed_at_once = reader.integer(reader.member(file, "hashed_at_once"));
        for (const Value& hash : reader.list(reader.member(file, "vocabulary")))
            read.vocabulary.push_back(reader.string(hash));
        for (const Value& row : reader.list(reader.member(file, "rows")))
            read.rows.push_back(reader.row(row));
        for (const Value& mistake : reader.list(reader.member(file, "mistakes"))) {
            Mistake known{reader.string(reader.member(mistake, "name")), {}};
            for (const Value& of_row : reader.list(reader.member(mistake, "likely")))
                known.likely.push_back(reader.likely(of_row));
            read.mistakes.push_back(std::move(known));
        }
    }
    const bool is_good = value && reader.is_good && !read.rows.empty() &&
                         (read.vocab_size == 0 || read.hashed_at_once > 0);
    if (is_good) return read;
    return Failure{ExitCode::bad_data,
                   format_text("{}: is not what trainer export writes{}; export the model again",
                               name, value ? "" : ": " + value.failure().message)};
}

Expected<References> References::read(const std::filesystem::path& folder) {
    const auto file = folder / file_name;
    const auto content = read_file(file);
    if (content) return parse(*content, file.string());
    return Failure{ExitCode::missing_input,
                   format_text("{}: there is no such file, so nothing says what this model should "
                               "compute; checkpoints, trainer export and the end of a run have one",
                               file.string())};
}

}  // namespace ringshard::data
