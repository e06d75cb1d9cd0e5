#include <algorithm>
#include <cmath>
#include <set>

#include "ringshard/base/text.hpp"
#include "ringshard/config/adapter_init.hpp"
#include "rule_report.hpp"

namespace ringshard::config {

namespace {

void check_taken_from_weights(RuleReport& report) {
    const Config& config = report.settings().values;
    const std::string where = "adapters that begin as a part of the weights ";
    if (config.adapter.use_dora)
        report.complain(
            {"init_lora_weights", "use_dora"},
            where + "are written as plain ones, which have no magnitudes; leave one out");
    if (config.quantization.is_on())
        report.complain({"init_lora_weights", config.quantization.setting()},
                        where + "leave others, which are not quantised; leave one of the two out");
}

void check_several_adapters(RuleReport& report) {
    const Config& config = report.settings().values;
    if (config.adapter.adapters.empty()) {
        if (config.adapter.adapters_at_a_time)
            report.complain({"adapters_at_a_time", "adapters"},
                            "has a meaning with several adapters only: give adapters, or leave it "
                            "out");
        return;
    }
    const auto refuse = [&](bool is_asked_for, const char* name, const char* why) {
        if (is_asked_for) report.complain({name, "adapters"}, why);
    };
    refuse(!config.adapter.adapter_name_or_path.empty(), "adapter_name_or_path",
           "each adapter that trains beside others goes on from one of its own; leave it out, and "
           "give adapter_name_or_path in the file of adapters");
    refuse(config.training.auto_find_batch_size, "auto_find_batch_size",
           "each adapter has rows and batches of its own; leave it out");
    refuse(config.evaluation.do_predict, "do_predict",
           "each adapter is evaluated on rows of its own, at its own last step; leave it out");
    refuse(config.logging.document_log != DocumentLogging::off, "document_log",
           "the rows of each adapter are those of another dataset; give off, or train the adapter "
           "in a run of its own");
    refuse(config.training.cuda_graphs, "cuda_graphs",
           "the tokens of each adapter differ from step to step; leave it out");
    refuse(config.training.has_fp8() && config.training.fp8_recipe != Fp8Recipe::rowwise,
           "fp8_recipe",
           "adapters that train together would share the scales of their tokens, and each would "
           "depend on the others; give rowwise, or train each adapter in a run of its own");
    const auto init = read_adapter_init(config.adapter.init_lora_weights);
    refuse(init && init->takes_from_weights(), "init_lora_weights",
           "adapters that train together leave the weights of the model as they are; choose "
           "true or gaussian");
}

void check_quantization(RuleReport& report) {
    const Config& config = report.settings().values;
    const QuantizationSettings& quantization = config.quantization;
    if (quantization.bnb_4bit_quant_type != "nf4")
        report.complain({"bnb_4bit_quant_type"}, "must be nf4");
    if (!quantization.load_in_4bit) {
        for (const char* const name : {"bnb_4bit_quant_type", "use_bnb_nested_quant"})
            if (report.settings().is_fixed(name))
                report.complain(
                    {name, "load_in_4bit"},
                    "has a meaning in four bits only: give load_in_4bit true, or leave it "
                    "out");
    }
    if (quantization.load_in_4bit && quantization.load_in_8bit)
        report.complain({"load_in_8bit", "load_in_4bit"},
                        "the frozen model is held in one of the two; leave the other out");
    const bool has_adapters = config.adapter.use_peft || !config.adapter.adapters.empty() ||
                              !config.adapter.adapter_name_or_path.empty();
    if (quantization.is_on() && !has_adapters)
        report.complain({quantization.setting(), "use_peft"},
                        format_text("quantised weights are frozen, and adapters are trained beside "
                                    "them: give use_peft true, or leave {} out",
                                    quantization.setting()));
}

bool is_rank(double number) { return number >= 1 && number <= 1e9 && number == std::floor(number); }

void check_choices(RuleReport& report) {
    const AdapterSettings& adapter = report.settings().values.adapter;
    const auto ranks = read_adapter_patterns(adapter.rank_pattern);
    if (!ranks || !std::ranges::all_of(*ranks, is_rank, &AdapterPatterns::value_type::second))
        report.complain({"rank_pattern"},
                        "must be a JSON object with a whole number above 0 for each expression, "
                        "such as {\"down_proj\": 16}");
    const auto alphas = read_adapter_patterns(adapter.alpha_pattern);
    const auto is_positive = [](double number) { return number > 0; };
    if (!alphas || !std::ranges::all_of(*alphas, is_positive, &AdapterPatterns::value_type::second))
        report.complain({"alpha_pattern"},
                        "must be a JSON object with a number above 0 for each expression, such as "
                        "{\"down_proj\": 32}");
}

bool are_rows(const TrainedTokens::value_type& of_module) {
    const std::vector<int64_t>& rows = of_module.second;
    return !rows.empty() && std::set(rows.begin(), rows.end()).size() == rows.size() &&
           std::ranges::all_of(rows, [](int64_t row) { return row >= 0; });
}

void check_trained_tokens(RuleReport& report) {
    const auto tokens =
        read_trained_tokens(report.settings().values.adapter.trainable_token_indices);
    if (!tokens || !std::ranges::all_of(*tokens, are_rows))
        report.complain({"trainable_token_indices"},
                        "must be a JSON list of numbers of tokens, such as [0, 5], or an object of "
                        "such lists by module; each token stands once");
}

void check_lora(RuleReport& report) {
    const AdapterSettings& adapter = report.settings().values.adapter;
    check_choices(report);
    check_trained_tokens(report);
    const bool learns_scores = report.settings().values.training.learns_scores();
    if (adapter.lora_task_type != "CAUSAL_LM" &&
        !(learns_scores && adapter.lora_task_type == "SEQ_CLS"))
        report.complain({"lora_task_type"},
                        "causal language models are trained, and PEFT loads an adapter of no other "
                        "type here: must be CAUSAL_LM, or with a head of scores SEQ_CLS");
    const auto init = read_adapter_init(adapter.init_lora_weights);
    if (!init)
        report.complain({"init_lora_weights"},
                        "must be true, gaussian, pissa, pissa_niter_N (N iterations) or olora");
    else if (init->takes_from_weights())
        check_taken_from_weights(report);
    check_several_adapters(report);
    for (const auto& [name, text] :
         {std::pair("adapters", &adapter.adapters),
          std::pair("adapter_name_or_path", &adapter.adapter_name_or_path)})
        if (!text->empty() && report.settings().is_fixed("use_peft") && !adapter.use_peft)
            report.complain({"use_peft", name}, "adapters are trained then; leave it out");
    if (adapter.use_peft || !adapter.adapter_name_or_path.empty() || !adapter.adapters.empty())
        return;
    const std::pair<const char*, bool> names[] = {
        {"lora_r", true},
        {"lora_alpha", true},
        {"lora_dropout", true},
        {"lora_target_modules", true},
        {"lora_modules_to_save", true},
        {"exclude_modules", !adapter.exclude_modules.empty()},
        {"layers_to_transform", !adapter.layers_to_transform.empty()},
        {"layers_pattern", !adapter.layers_pattern.empty()},
        {"rank_pattern", !adapter.rank_pattern.empty()},
        {"alpha_pattern", !adapter.alpha_pattern.empty()},
        {"trainable_token_indices", !adapter.trainable_token_indices.empty()},
        {"use_rslora", adapter.use_rslora},
        {"lora_target_parameters", !adapter.lora_target_parameters.empty()},
        {"use_dora", adapter.use_dora},
        {"lora_bias", adapter.lora_bias},
        {"init_lora_weights", adapter.init_lora_weights != "true"},
        {"bias", adapter.bias != TrainedBiases::none},
        {"loraplus_lr_ratio", true}};
    for (const auto& [name, asks_for_something] : names)
        if (report.settings().is_fixed(name) && asks_for_something)
            report.complain(
                {name, "use_peft"},
                "has a meaning with adapters only: give use_peft true, or leave it out");
}

}  // namespace

void check_adapters(RuleReport& report) {
    check_lora(report);
    check_quantization(report);
}

}  // namespace ringshard::config
