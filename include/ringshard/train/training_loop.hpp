#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "ringshard/base/faults.hpp"
#include "ringshard/checkpoint/saver.hpp"
#include "ringshard/checkpoint/store.hpp"
#include "ringshard/comm/crash_report.hpp"
#include "ringshard/hub/export_weights.hpp"
#include "ringshard/hub/safetensors.hpp"
#include "ringshard/job/deadline.hpp"
#include "ringshard/offload/offload_stores.hpp"
#include "ringshard/peft/initial_adapter.hpp"
#include "ringshard/report/tracker.hpp"
#include "ringshard/shard/tensor_sums.hpp"
#include "ringshard/train/evaluator.hpp"
#include "ringshard/train/generator.hpp"
#include "ringshard/train/trainer.hpp"
#include "ringshard/watch/watchdog.hpp"

namespace ringshard::config {
struct Config;
}

namespace ringshard::train {

// The parts of a run.
struct RunParts {
    const config::Config& config;
    const comm::Group& world;
    Trainer& trainer;
    // None: the run does not evaluate. Of each evaluation set of each learner.
    std::span<const Evaluator> evaluators;
    const Generator* generator;  // nullptr: no eval_prompts
    const checkpoint::Store& store;
    checkpoint::Saver& saver;
    std::function<int64_t()> free_host_memory;  // bytes
    shard::Zero& zero;
    optim::Optimizer& optimizer;
    const model::DelayedScaling* delayed_scaling;  // nullptr: checkpoints have no maxima
    const offload::OffloadStores& offload_stores;
    checkpoint::Extras extras;   // of its checkpoints; the files go beside the model too
    hub::ExportForm model_form;  // of the model that is written at the end
    std::optional<shard::FrozenSource> frozen_source;  // if memory holds them rounded
    const peft::InitialAdapter* initial_adapter;       // subtracted from them, or nullptr
    std::vector<std::string> adapter_configs;          // of each learner; none: it has no adapter
    Faults& faults;
    const job::Deadline& deadline;
    comm::CrashReport& crash_report;
    watch::Watchdog& watchdog;
    const std::vector<std::string>& hosts;  // by rank
    std::filesystem::path resumed_from;     // from which the run goes on; empty: it begins
    const std::map<std::string, std::string>& resumed_texts;  // of that checkpoint
    double peak_operations;                                   // of this rank, per second
    report::TrackedRun tracked_run;                           // on rank 0
    std::filesystem::path rows_file;                          // of the rows of training
    // Returns verify.json for the weights as they are, on rank 0: what the model computes for a few
    // rows; empty where the run has none. Collective over the world.
    std::function<comm::Agreed<std::string>()> compute_references;
};

// rewind: loss or gradient of a step were not finite, and the run resumes from its newest
// checkpoint, as after a restart.
enum class Ending { complete, rewind };

// Trains, logs, evaluates and saves until the last step, or until a signal, a file or the time
// limit ends the job. After the last step output_dir is a Hugging Face folder. Collective over the
// world.
comm::Agreed<Ending> train_to_the_end(RunParts parts);

}  // namespace ringshard::train
