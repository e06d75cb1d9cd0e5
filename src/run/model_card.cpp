#include "model_card.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/hub_cache.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/run/run_adapters.hpp"
#include "version.hpp"

namespace ringshard::run {

namespace {

const char* const mark =
    "<!-- Written by Ringshard, which replaces this file only as long as this line is in it. -->";

// A name on the hub may be published; of a local path only its last part.
struct Source {
    explicit Source(const std::string& setting)
        : is_on_hub(looks_like_repository(setting) && !file_exists(setting)) {
        name = is_on_hub ? setting : without_slash(setting).filename().string();
    }
    std::string link(const char* folder) const {
        return is_on_hub ? format_text("[{}](https://huggingface.co/{}{})", name, folder, name)
                         : format_text("`{}`", with_escapes(name));
    }
    bool is_on_hub;
    std::string name;
};

std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// What a card says of a method.
struct MethodWords {
    const char* tag;
    const char* name;
};

MethodWords words_of(config::Method method) {
    switch (method) {
        case config::Method::sft: return {"sft", "supervised fine-tuning"};
        case config::Method::dpo: return {"dpo", "direct preference optimisation"};
        case config::Method::cpo: return {"cpo", "contrastive preference optimisation"};
        case config::Method::kto: return {"kto", "Kahneman-Tversky optimisation"};
        case config::Method::reward: return {"reward-trainer", "training as a reward model"};
        case config::Method::embedding: return {"sentence-transformers", "contrastive learning"};
        case config::Method::classification: break;
    }
    return {"text-classification", "training on labels of documents"};
}

std::string usage_of(const config::TrainingSettings& training, const std::string& name) {
    if (training.learns_embeddings())
        return format_text(
            "from sentence_transformers import SentenceTransformer\n\n"
            "model = SentenceTransformer({})\n"
            "print(model.encode([\"What is a ring?\"]))\n",
            quoted(name));
    if (training.learns_scores())
        return format_text(
            "from transformers import pipeline\n\n"
            "classifier = pipeline(\"text-classification\", model={}, "
            "function_to_apply=\"none\")\n"
            "print(classifier(\"What is a ring?\"))\n",
            quoted(name));
    return format_text(
        "from transformers import pipeline\n\n"
        "generator = pipeline(\"text-generation\", model={})\n"
        "print(generator([{{\"role\": \"user\", \"content\": \"What is a ring?\"}}], "
        "max_new_tokens=128)[0][\"generated_text\"])\n",
        quoted(name));
}

std::string print_card(const config::Config& config, const LossFingerprint& fingerprint,
                       bool is_adapter) {
    const Source model(config.model.model_name_or_path);
    const Source data(config.data.dataset_name);
    const std::string& id = config.checkpoint.hub_model_id;
    const auto& [tag, method] = words_of(config.training.method);
    const std::string name =
        id.empty() ? Source(std::filesystem::absolute(config.run.output_dir)).name : id;
    std::string card = "---\n";
    if (model.is_on_hub) card += format_text("base_model: {}\n", quoted(model.name));
    if (data.is_on_hub) card += format_text("datasets:\n- {}\n", quoted(data.name));
    card += format_text(
        "library_name: {}\n"
        "model_name: {}\n"
        "tags:\n"
        "- {}\n"
        "- ringshard\n"
        "---\n\n"
        "{}\n\n"
        "# {}\n\n"
        "{}{} after {}",
        is_adapter ? "peft" : "transformers", quoted(name), tag, mark, with_escapes(name),
        is_adapter ? "An adapter of " : "", model.link(""), method);
    card += data.name.empty() ? "" : format_text(" on {}", data.link("datasets/"));
    card += format_text(
        ", with Ringshard {}.\n\n"
        "## Use\n\n"
        "```python\n"
        "{}"
        "```\n\n"
        "## Training\n\n"
        "| setting | value |\n"
        "|---|---|\n",
        version::program, usage_of(config.training, name));
    for (const auto& [setting, value] : fingerprint) {
        const bool is_for_programs =
            setting.starts_with("the model's ") || setting.find("(hash") != std::string::npos;
        if (!value.empty() && !is_for_programs)
            card += format_text("| {} | {} |\n", setting, with_escapes(value));
    }
    return card;
}

}  // namespace

void add_model_card(std::map<std::string, std::string>& files, const config::Config& config,
                    const LossFingerprint& fingerprint) {
    const auto file = std::filesystem::path(config.run.output_dir) / "README.md";
    const auto there = read_file(file);
    const bool is_somebody_elses =
        there ? there->find(mark) == std::string::npos : file_exists(file);
    if (!is_somebody_elses)
        files["README.md"] = print_card(config, fingerprint, asks_for_adapters(config));
}

}  // namespace ringshard::run
