#pragma once

#include "ringshard/cli/engine.hpp"

// Commands that need LibTorch. All ranks of the world call them together, but for plan.
namespace ringshard::cli {

// Trains a model as the settings say.
int run_train(const run::CommandContext& context);

// Writes the rows that training will see, ahead of the job.
int run_prepare(const run::CommandContext& context);

// Prints the first rows of a dataset before and after the mapping and the row template.
int run_inspect_rows(const run::CommandContext& context);

// Writes the log-probabilities of the tokens of rows.
int run_score(const run::CommandContext& context);

// Writes the Hugging Face folder of a checkpoint, on the processors of any number of ranks.
int run_export(const run::CommandContext& context);

// Compares the folder of a model with what it computed when it was exported.
int run_verify(const run::CommandContext& context);

// Writes the folder of a model with random weights from a config.json, so that anyone can try the
// program without a download. Rank 0 works.
int run_init(const run::CommandContext& context);

// Compares the mesh of a job with one rank, on a small model of its architecture.
int run_prove(const run::CommandContext& context);

// Looks at the machine, MPI, the devices and the network of this job, and names the defects.
int run_doctor(const run::CommandContext& context);

// Reckons memory, time and bytes of a run, in one process and without MPI.
int run_plan(const PlanContext& context);

}  // namespace ringshard::cli
