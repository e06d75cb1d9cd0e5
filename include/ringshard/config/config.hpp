#pragma once

#include "ringshard/config/adapter_settings.hpp"
#include "ringshard/config/checkpoint_settings.hpp"
#include "ringshard/config/data_settings.hpp"
#include "ringshard/config/evaluation_settings.hpp"
#include "ringshard/config/logging_settings.hpp"
#include "ringshard/config/model_settings.hpp"
#include "ringshard/config/parallel_settings.hpp"
#include "ringshard/config/quantization_settings.hpp"
#include "ringshard/config/run_settings.hpp"
#include "ringshard/config/training_settings.hpp"

// Every setting that the program serves, as plain values. Names, meaning and defaults are TRL's
// (docs/contract.md, section 2); src/config/options/ defines their form on a command line or in a
// file. Code that needs one section includes the header of that section.
namespace ringshard::config {

struct Config {
    RunSettings run;
    ModelSettings model;
    AdapterSettings adapter;
    QuantizationSettings quantization;
    DataSettings data;
    TrainingSettings training;
    ParallelSettings parallel;
    EvaluationSettings evaluation;
    LoggingSettings logging;
    CheckpointSettings checkpoint;
};

}  // namespace ringshard::config
