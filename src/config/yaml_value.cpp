#include "yaml_value.hpp"

#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/utf8.hpp"
#include "value_text.hpp"

namespace ringshard::config {

// Mappings stay in the order of the file.
using json = nlohmann::ordered_json;

namespace {

// No settings file reaches these, but alias cycles and a few lines that expand to millions do.
constexpr int deepest = 100;
constexpr int most_nodes = 100'000;

const std::string& utf8_of(const YAML::Node& scalar) {
    const std::string& text = scalar.Scalar();
    if (!is_utf8(text)) throw YAML::Exception(scalar.Mark(), "a text is not UTF-8");
    return text;
}

// Converts YAML to JSON. Plain scalars keep their text; quoted ones become texts.
class Unfolding {
public:
    json unfold(const YAML::Node& node, int depth = 0) {
        if (depth > deepest || ++num_nodes_ > most_nodes)
            throw YAML::Exception(node.Mark(), "holds itself, or more than a file of settings can");
        switch (node.Type()) {
            case YAML::NodeType::Sequence: {
                json list = json::array();
                for (const YAML::Node& item : node) list.push_back(unfold(item, depth + 1));
                return list;
            }
            case YAML::NodeType::Map: {
                json mapping = json::object();
                for (const auto& entry : node)
                    mapping[utf8_of(entry.first)] = unfold(entry.second, depth + 1);
                return mapping;
            }
            case YAML::NodeType::Scalar: return scalar(node);
            default: return nullptr;
        }
    }

private:
    static json scalar(const YAML::Node& node) {
        const std::string& text = utf8_of(node);
        if (node.Tag() == "!") return text;
        if (const auto number = read_number(text)) {
            auto parsed = parse_json<json>(text);
            return parsed ? std::move(parsed.value()) : json(*number);
        }
        if (is_null(text)) return nullptr;
        if (text == "true" || text == "True") return true;
        if (text == "false" || text == "False") return false;
        return text;
    }
    int num_nodes_ = 0;
};

}  // namespace

std::string to_text(const YAML::Node& node) {
    if (node.IsScalar()) return utf8_of(node);
    const json value = Unfolding().unfold(node);
    return value.is_null() ? "null" : value.dump();
}

nlohmann::ordered_json to_json(const YAML::Node& node) { return Unfolding().unfold(node); }

std::string to_text(const nlohmann::ordered_json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace ringshard::config
