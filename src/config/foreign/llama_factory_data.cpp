#include <algorithm>
#include <fstream>

#include "../value_text.hpp"
#include "llama_factory_data.hpp"
#include "reasons.hpp"
#include "recipe_data.hpp"
#include "ringshard/base/parse_json.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

// Reads the names of `dataset` and their entries in dataset_info.json.
class FactoryData {
public:
    explicit FactoryData(ForeignImport& import)
        : import_(import), folder_(import.text("dataset_dir", "data")) {}

    void read() {
        if (!import_.has("dataset")) return;
        if (import_.has("max_samples") && import_.number("max_samples", 1) < 1)
            import_.refuse("max_samples", "no row is left; give the number of rows, from 1");
        ordered_json sources = ordered_json::array();
        for (const std::string& name : names("dataset"))
            if (auto source = source_of("dataset", name); !source.is_null())
                sources.push_back(std::move(source));
        weigh(sources);
        if (!sources.empty()) import_.set("dataset", "datasets", sources);
        read_evaluation();
        const bool learns_all =
            import_.is_on("train_on_prompt") || is_pretraining() || has_pairs() || has_judgements();
        if (!learns_all && has_conversations_)
            import_.set("dataset", "roles_to_train", ordered_json::array({"assistant"}));
    }

private:
    bool is_pretraining() const { return import_.text("stage", "sft") == "pt"; }
    bool has_pairs() const {
        const std::string stage = import_.text("stage", "sft");
        return stage == "dpo" || stage == "rm";
    }
    bool has_judgements() const { return import_.text("stage", "sft") == "kto"; }

    std::vector<std::string> names(const std::string& key) const {
        const ordered_json& value = import_.at(key);
        std::vector<std::string> list;
        const ordered_json items = value.is_array() ? value : ordered_json::array({value});
        for (const ordered_json& item : items)
            for (const std::string& name : split(setting_text(item), ','))
                if (!trim(name).empty()) list.emplace_back(trim(name));
        return list;
    }

    void read_evaluation() {
        import_.refuse_beside("val_size", "eval_dataset");
        if (import_.has("eval_dataset")) {
            const std::vector<std::string> evaluated = names("eval_dataset");
            if (evaluated.size() != 1)
                return import_.refuse("eval_dataset", "one dataset is evaluated");
            const auto source = source_of("eval_dataset", evaluated.front());
            if (source.is_null()) return;
            import_.set("eval_dataset", "eval_dataset_name", source["path"]);
            import_.set("eval_dataset", "dataset_test_split", source["split"]);
            if (source.contains("row_template"))
                import_.set("eval_dataset", "row_template", source["row_template"]);
        } else if (import_.number("val_size", 0) > 0) {
            import_.set("val_size", "test_split_size", import_.at("val_size"));
        }
    }

    const ordered_json& info() {
        if (!info_.is_null()) return info_;
        const std::string file = folder_ + "/dataset_info.json";
        std::ifstream stream(file, std::ios::binary);
        const std::string text(std::istreambuf_iterator<char>(stream), {});
        auto read = parse_json<ordered_json>(text);
        info_ = read && read.value().is_object() ? std::move(read.value()) : ordered_json::object();
        if (info_.empty())
            import_.refuse("dataset",
                           format_text("{} is not there, or is no JSON, and says where the data "
                                       "is; dataset_dir names its folder",
                                       file));
        return info_;
    }

    ordered_json source_of(const std::string& key, const std::string& name) {
        std::error_code ignored;
        if (std::filesystem::exists(name, ignored)) return form(ordered_json::object(), name);
        const ordered_json& all = info();
        if (all.empty()) return nullptr;
        if (!all.contains(name)) {
            import_.refuse(key, format_text("{}: dataset_info.json has no such entry", name));
            return nullptr;
        }
        const ordered_json& entry = all[name];
        if (!entry.is_object()) {
            import_.refuse(key,
                           format_text("{}: the entry of dataset_info.json is no mapping", name));
            return nullptr;
        }
        for (const char* media : {"images", "videos", "audios"})
            if (entry.contains("columns") && entry["columns"].contains(media)) {
                import_.refuse(key, format_text("{}: {}", name, reasons::no_vision));
                return nullptr;
            }
        if (entry.value("ranking", false) != has_pairs()) {
            import_.refuse(key,
                           format_text("{}: {}", name,
                                       has_pairs() ? "the entry is no ranking, of which the "
                                                     "rows are pairs"
                                                   : "the rows are pairs, of stages dpo and rm"));
            return nullptr;
        }
        if (has_judgements() && !has_label(entry)) {
            import_.refuse(key, format_text("{}: the entry names no kto_tag, the column that says "
                                            "which answers are desirable",
                                            name));
            return nullptr;
        }
        std::string path;
        for (const char* where : {"hf_hub_url", "ms_hub_url", "om_hub_url"})
            if (path.empty()) path = entry.value(where, std::string());
        if (path.empty() && entry.contains("file_name"))
            path = folder_ + "/" + entry["file_name"].get<std::string>();
        if (path.empty()) {
            import_.refuse(key,
                           format_text("{}: the entry names no hub_url and no file_name", name));
            return nullptr;
        }
        return form(entry, path);
    }

    ordered_json form(const ordered_json& entry, const std::string& path) {
        ordered_json source = {{"path", path}};
        if (entry.contains("subset")) source["name"] = entry["subset"];
        if (entry.contains("folder")) source["data_dir"] = entry["folder"];
        std::string split = entry.value("split", std::string("train"));
        double most = import_.number("max_samples", 0);
        if (entry.contains("num_samples")) {
            const auto own = entry["num_samples"].get<double>();
            if (own < 1)
                import_.refuse("dataset", format_text("{}: num_samples of dataset_info.json is {}, "
                                                      "and no row is left",
                                                      path, own));
            most = most > 0 ? std::min(most, own) : own;
        }
        if (most > 0) split += format_text("[:{}]", static_cast<int64_t>(most));
        source["split"] = split;
        const std::string formatting = entry.value("formatting", std::string("alpaca"));
        if (formatting == "alpaca")
            read_alpaca(entry.value("columns", ordered_json::object()), source);
        else
            read_conversation(entry, formatting == "openai", source);
        return source;
    }

    static bool has_label(const ordered_json& entry) {
        return entry.contains("columns") && entry["columns"].contains("kto_tag");
    }

    static std::string column(const ordered_json& columns, const char* ours, const char* usual) {
        const ordered_json named = columns.value(ours, ordered_json());
        return named.is_string() ? named.get<std::string>() : std::string(usual);
    }

    void read_alpaca(const ordered_json& columns, ordered_json& source) {
        const std::string prompt = column(columns, "prompt", "instruction");
        if (is_pretraining()) {
            source["column_map"] = {{"text", prompt}};
            return;
        }
        has_conversations_ = true;
        const std::string query = column(columns, "query", "input");
        const std::string system = column(columns, "system", "system");
        const std::string history = column(columns, "history", "history");
        const auto has = [](const std::string& name) { return name + " is defined and " + name; };
        const std::string turns =
            "{% if " + has(system) + " %}{\"role\": \"system\", \"content\": {{ " + system +
            " | tojson }}},{% endif %}{% for turn in (" + history + " if " + has(history) +
            " else []) %}{\"role\": \"user\", \"content\": {{ turn[0] | tojson }}}, {\"role\": "
            "\"assistant\", \"content\": {{ turn[1] | tojson }}},{% endfor %}{\"role\": \"user\", "
            "\"content\": {{ (" +
            prompt + " ~ ('\\n' ~ " + query + " if " + has(query) + " else '')) | tojson }}}";
        if (has_pairs())
            source["row_template"] = pair_template(turns, column(columns, "chosen", "chosen"),
                                                   column(columns, "rejected", "rejected"));
        else if (has_judgements())
            source["row_template"] = judged_template(turns, column(columns, "response", "output"),
                                                     column(columns, "kto_tag", "kto_tag"));
        else
            source["row_template"] = "{\"messages\": [" + turns + ", " +
                                     answer_of(column(columns, "response", "output")) + "]}";
    }

    void read_conversation(const ordered_json& entry, bool is_open_ai, ordered_json& source) {
        has_conversations_ = true;
        const ordered_json columns = entry.value("columns", ordered_json::object());
        const ordered_json tags = entry.value("tags", ordered_json::object());
        const std::string messages = column(columns, "messages", "conversations");
        ordered_json map = ordered_json::object();
        if (messages != "messages") map["messages"] = messages;
        if (const std::string tools = column(columns, "tools", "tools"); tools != "tools")
            map["tools"] = tools;
        if (!map.empty()) source["column_map"] = map;
        const auto tag = [&](const char* name, const char* usual, const char* open_ai) {
            return column(tags, name, is_open_ai ? open_ai : usual);
        };
        const std::string role = tag("role_tag", "from", "role");
        const std::string content = tag("content_tag", "value", "content");
        const ordered_json roles = {{"user", {tag("user_tag", "human", "user")}},
                                    {"assistant",
                                     {tag("assistant_tag", "gpt", "assistant"),
                                      tag("function_tag", "function_call", "function_call")}},
                                    {"tool", {tag("observation_tag", "observation", "tool")}},
                                    {"system", {tag("system_tag", "system", "system")}}};
        if (has_pairs()) {
            source.erase("column_map");
            source["row_template"] =
                pair_template(turns_of(messages, role, content, roles),
                              text_of_message(column(columns, "chosen", "chosen"), content),
                              text_of_message(column(columns, "rejected", "rejected"), content));
            return;
        }
        if (has_judgements()) {
            source.erase("column_map");
            const std::string last = messages + "[-1]['" + content + "']";
            source["row_template"] =
                judged_template(turns_of(messages + "[:-1]", role, content, roles), last,
                                column(columns, "kto_tag", "kto_tag"));
            return;
        }
        source["role_key"] = role;
        source["content_key"] = content;
        source["roles"] = roles;
    }

    // interleave_under and interleave_over draw by interleave_probs; concat takes all.
    void weigh(ordered_json& sources) {
        const std::string strategy = import_.text("mix_strategy", "concat");
        if (strategy == "concat") return;
        if (strategy != "interleave_under" && strategy != "interleave_over")
            return import_.refuse("mix_strategy",
                                  "use concat, interleave_under or interleave_over");
        const std::vector<std::string> shares = split(import_.text("interleave_probs"), ',');
        for (size_t i = 0; i < sources.size(); ++i)
            sources[i]["weight"] = i < shares.size() ? read_number(shares[i]).value_or(1) : 1.0;
        if (strategy == "interleave_over")
            import_.set("mix_strategy", "mixture_stopping_strategy", std::string("all_exhausted"));
    }

    ForeignImport& import_;
    std::string folder_;
    ordered_json info_;
    bool has_conversations_ = false;
};

}  // namespace

void read_llama_factory_data(ForeignImport& import) { FactoryData(import).read(); }

}  // namespace ringshard::config
