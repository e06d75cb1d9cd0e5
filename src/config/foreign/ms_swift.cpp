#include <cmath>

#include "ms_swift_keys.hpp"
#include "swift_data.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

void read_batch(ForeignImport& import) {
    if (import.has("gradient_accumulation_steps")) return;
    const double rows = import.number("per_device_train_batch_size", 1);
    import.set_default("gradient_accumulation_steps",
                       shortest(std::max(1.0, std::ceil(16 / std::max(1.0, rows)))));
}

void read_ms_swift_precision(ForeignImport& import) {
    const std::string type = import.text("torch_dtype");
    if (type == "float32") import.set("torch_dtype", "mixed_precision", std::string("no"));
    if (type == "float16") import.set("torch_dtype", "mixed_precision", std::string("fp16"));
    if (import.has("quant_bits")) {
        const std::string bits = import.text("quant_bits");
        const std::string method = import.text("quant_method", "bnb");
        if (method != "bnb" || (bits != "4" && bits != "8"))
            import.refuse("quant_bits", "4 and 8 bits of quant_method bnb are served");
        else
            import.set("quant_bits", bits == "4" ? "load_in_4bit" : "load_in_8bit",
                       std::string("true"));
    }
}

void read_swift_sharding(ForeignImport& import) {
    const std::string deepspeed = import.text("deepspeed");
    if (deepspeed.ends_with("_offload") && deepspeed.size() == 13) {
        import.set("deepspeed", "profile", deepspeed.substr(0, 5));
        import.set("deepspeed", "offload_optimizer_device", std::string("cpu"));
        if (deepspeed.starts_with("zero3"))
            import.set("deepspeed", "offload_param_device", std::string("cpu"));
    } else if (deepspeed == "zero0") {
        import.set("deepspeed", "profile", std::string("multi_gpu"));
    } else if (deepspeed.starts_with("zero") && deepspeed.size() == 5) {
        import.set("deepspeed", "profile", deepspeed);
    } else if (!deepspeed.empty()) {
        import.set("deepspeed", "deepspeed", deepspeed);
    }
    const std::string fsdp = import.text("fsdp");
    if (fsdp == "fsdp2")
        import.set("fsdp", "profile", fsdp);
    else if (!fsdp.empty())
        import.set("fsdp", "profile", fsdp);
}

void read_rest(ForeignImport& import) {
    if (import.has("rope_scaling"))
        import.refuse("rope_scaling",
                      "rope_parameters has the positions, as {\"rope_type\": \"yarn\", \"factor\": "
                      "4.0, \"original_max_position_embeddings\": 32768}");
    if (import.has("add_non_thinking_prefix") && import.is_on("add_non_thinking_prefix"))
        import.refuse("add_non_thinking_prefix",
                      "put <think></think> into the answers, or into the chat template");
    if (const ordered_json& tokens = import.at("new_special_tokens"); !tokens.is_null()) {
        if (setting_text(tokens).find(".txt") != std::string::npos)
            import.refuse("new_special_tokens", "give the tokens themselves");
        else
            import.set("new_special_tokens", "added_tokens", tokens);
    }
    if (import.is_on("merge_lora"))
        import.note("merge_lora", "trainer export --merge writes the merged model");
    if (const double limit = import.number("save_total_limit", -1); limit > 0)
        import.set("save_total_limit", "save_total_limit", shortest(limit));
}

void translate_ms_swift(ForeignImport& import) {
    read_swift_tuner(import, "lora");
    const std::string tuner =
        import.text(import.has("train_type") ? "train_type" : "tuner_type", "lora");
    import.set_default("learning_rate", tuner == "full" ? "1e-5" : "1e-4");
    read_swift_template(import);
    read_swift_data(import);
    read_batch(import);
    read_ms_swift_precision(import);
    read_swift_sharding(import);
    read_rest(import);
}

}  // namespace

const ForeignTrainer& ms_swift() {
    static const ForeignTrainer trainer{"ms-swift", ms_swift_keys(), ms_swift_defaults(),
                                        translate_ms_swift};
    return trainer;
}

}  // namespace ringshard::config
