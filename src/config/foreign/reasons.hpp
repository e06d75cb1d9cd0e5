#pragma once

#include <string_view>

// Reasons that several trainers' tables give.
namespace ringshard::config::reasons {

inline constexpr std::string_view kernels = "the built-in operations are always fused";
inline constexpr std::string_view attention =
    "the built-in exact attention is used, and packed documents stay apart";
inline constexpr std::string_view trackers =
    "output_dir/metrics.jsonl has every number, and report_to tensorboard, wandb, mlflow or "
    "trackio writes further formats";
inline constexpr std::string_view prepared =
    "all ranks prepare the data together and keep the result";
inline constexpr std::string_view prefetch = "the loader reads ahead on a thread of its own";
inline constexpr std::string_view padding = "padding never enters the computation";
inline constexpr std::string_view shards =
    "its ranks shard the model: the same numbers, with rows of their own";
inline constexpr std::string_view layout = "the layout changes no number";
inline constexpr std::string_view launch = "SLURM or mpirun starts the ranks";
inline constexpr std::string_view tokenizer =
    "the tokenizer is that of the model's folder, exact to the tokenizers package";
inline constexpr std::string_view model_code = "no Python is run; the architectures are built in";
inline constexpr std::string_view reports = "trainer report draws the curves of a run";
inline constexpr std::string_view of_preferences =
    "preferences are learned by the losses of `trainer dpo`, `trainer cpo` and `trainer kto`";
inline constexpr std::string_view fine_tuning_only =
    "supervised fine-tuning, DPO, CPO, KTO and reward models are served, and no reinforcement "
    "learning";
inline constexpr std::string_view no_vision =
    "images, audio and video are not served; text_only true takes the text of such rows";
inline constexpr std::string_view no_qat = "training with quantised weights is not served";
inline constexpr std::string_view stored_teacher =
    "a teacher is read from stored scores: trainer score writes them, and teacher_scores names "
    "them";
inline constexpr std::string_view no_plugins = "code of one's own is not run";

}  // namespace ringshard::config::reasons
