#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_evaluation_options(OptionTable& table) {
    OptionGroup group(table, "Evaluation", &Config::evaluation);
    group.serve("eval_strategy", &EvaluationSettings::eval_strategy,
                "Events at which the model is evaluated.");
    group
        .serve("eval_steps", &EvaluationSettings::eval_steps,
               "Steps between evaluations; null: logging_steps; below 1: a share of all steps.")
        .above(0);
    group
        .serve("eval_delay", &EvaluationSettings::eval_delay,
               "Steps or epochs before the first evaluation.")
        .at_least(0);
    group.serve("eval_on_start", &EvaluationSettings::eval_on_start,
                "Evaluate before the first step.");
    group.serve("do_predict", &EvaluationSettings::do_predict,
                "Evaluate the result once more at the end, and write its numbers to "
                "predict_results.json.");
    group
        .serve("per_device_eval_batch_size", &EvaluationSettings::per_device_eval_batch_size,
               "Rows per data rank and evaluation batch.")
        .at_least(1);
    group.serve("load_best_model_at_end", &EvaluationSettings::load_best_model_at_end,
                "Leave the best evaluated weights in output_dir.");
    group.serve("metric_for_best_model", &EvaluationSettings::metric_for_best_model,
                "Metric of evaluations that finds the best model; null: eval_loss.");
    group.serve("greater_is_better", &EvaluationSettings::greater_is_better,
                "Null: false for a loss, true otherwise.");
    group
        .serve("early_stopping_patience", &EvaluationSettings::early_stopping_patience,
               "End the run after this many evaluations in a row that do not improve on the best.")
        .at_least(1);
    group
        .serve("early_stopping_threshold", &EvaluationSettings::early_stopping_threshold,
               "By how much an evaluation has to be better than the best to improve on it.")
        .at_least(0);
    group.serve("eval_prompts", &EvaluationSettings::eval_prompts,
                "A file of prompts that every evaluation goes on from, greedily: rows with prompt, "
                "messages or text.");
    group
        .serve("eval_max_new_tokens", &EvaluationSettings::eval_max_new_tokens,
               "The most tokens that are generated for each of eval_prompts.")
        .at_least(1);
    group
        .serve("top_k", &EvaluationSettings::top_k,
               "For score: how many of the most likely tokens are written in the place of each.")
        .at_least(0)
        .at_most(1000);

    group.older("evaluation_strategy", "eval_strategy");
    group.accept("do_eval", Shape::boolean, "false", "eval_strategy says when to evaluate");
    const std::string path = "evaluation runs on the path of training and keeps no logits";
    group.accept_all({{"prediction_loss_only", Shape::boolean},
                      {"eval_do_concat_batches", Shape::boolean},
                      {"eval_use_gather_object", Shape::boolean},
                      {"eval_accumulation_steps", Shape::integer},
                      {"batch_eval_metrics", Shape::boolean}},
                     path);
    group.accept(
        "include_for_metrics", Shape::list, "[]",
        "only a compute_metrics function reads it, and this program calls no such function");
}

}  // namespace ringshard::config
