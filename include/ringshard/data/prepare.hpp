#pragma once

#include <filesystem>
#include <map>

#include "ringshard/comm/agree.hpp"
#include "ringshard/data/dataset_files.hpp"
#include "ringshard/data/format.hpp"
#include "ringshard/data/plan_rows.hpp"
#include "ringshard/data/rows.hpp"

namespace ringshard::data {

// One of the datasets of a mixture.
struct Source {
    DatasetName dataset{};
    RowMapping mapping{};
    // Amount to take; at most one of these, given for all sources or for none.
    std::optional<double> fraction{};  // of the mixture, without repetition
    std::optional<double> weight{};    // draw samples in proportion to it
    std::optional<double> epochs{};    // number of passes over its samples
    bool repeats() const { return epochs.value_or(1) > 1; }
};

// Scores of another model for the tokens of the rows.
struct ScoreChoice {
    std::string setting{};               // that names them, for messages
    std::string folder;                  // of files that `trainer score` wrote, or one of them
    std::optional<int64_t> per_token{};  // unset: as many as the files have
    double temperature = 1;
    std::string cure{};  // for scores that do not serve
};

// Everything that determines the rows of a run.
struct Preparation {
    std::vector<Source> sources;
    bool documents = false;  // a text file is one row instead of a row per line
    FormatSettings format;
    SampleChoice::Side side = SampleChoice::Side::all;
    double test_size = 0;
    int64_t split_seed = 0;
    std::optional<int64_t> shuffle_seed{};  // of a mixture
    Drawing drawing{};
    bool drops_copies = false;  // of earlier rows
    RowSettings rows;
    std::optional<ScoreChoice> scores{};
    // The last source is an anchor: rows of `trainer score`. It is no part of the mixture: training
    // takes each of its samples once, and `scores` are those of its rows alone.
    bool has_anchor = false;
    int64_t skip_bad_rows = 0;  // maximum number of unusable rows to skip; more are a failure
};

// Where and with which resources to prepare; they do not affect the rows.
struct PrepareResources {
    std::filesystem::path cache;  // a folder shared by all ranks
    HubCache hub;
    int threads = 1;             // per rank
    bool shows_progress = true;  // on standard error of rank 0
};

struct Prepared {
    Rows rows;
    RowReport report;
    int64_t largest_token = 0;
    std::filesystem::path store_file;
    std::filesystem::path plan_file;
    std::vector<std::string> warnings;
};

// Open cache files of this process; the job has verified the hash of every byte.
using OpenFiles = std::map<std::filesystem::path, ArrayFile>;

// Makes the rows, or finds them in the cache under a hash of the data and of all settings. All
// ranks and threads of the group tokenize the dataset; rank 0 plans the rows. The files have the
// same bytes at any number of ranks and threads, and appear under their names when they are
// complete. Reuses files in `open`, such as the tokens if evaluation splits the training data, and
// adds the others. Collective over the group.
comm::Agreed<Prepared> prepare(const Preparation& preparation, const PrepareResources& resources,
                               const comm::Group& group, OpenFiles& open);

// Fails if the files of the data do not exist. Collective over the group.
std::optional<comm::AgreedFailure> find_files(const Preparation& preparation, const HubCache& hub,
                                              const comm::Group& group);

}  // namespace ringshard::data
