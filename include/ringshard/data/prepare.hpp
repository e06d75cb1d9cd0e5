#pragma once

#include <filesystem>
#include <map>

#include "ringshard/comm/agree.hpp"
#include "ringshard/data/dataset_files.hpp"
#include "ringshard/data/format.hpp"
#include "ringshard/data/plan_rows.hpp"
#include "ringshard/data/rows.hpp"

namespace ringshard::data {

// One of the datasets that are put together.
struct Source {
    DatasetName dataset{};
    RowMapping mapping{};
    // How much of it the mixture takes; one of these at most, given for all sources or none.
    std::optional<double> fraction{};  // of the mixture, without repetition
    std::optional<double> weight{};    // in proportion to which samples are drawn
    std::optional<double> epochs{};    // how many times its samples are taken
};

// Everything that decides what rows training sees.
struct Preparation {
    std::vector<Source> sources;
    bool documents = false;  // a file of text is one row, not a row a line
    FormatSettings format;
    SampleChoice::Side side = SampleChoice::Side::all;
    double test_size = 0;
    int64_t split_seed = 0;
    Drawing drawing{};
    RowSettings rows;
    int64_t skip_bad_rows = 0;  // rows that cannot be used and are left out; more are a failure
};

// Where and with what the work is done; nothing of it changes the rows.
struct PrepareResources {
    std::filesystem::path cache;  // a folder that all ranks see
    HubCache hub;
    int threads = 1;             // of each rank
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

// Files of the cache that this process has open, every byte of which the job has hashed.
using OpenFiles = std::map<std::filesystem::path, ArrayFile>;

// Makes the rows, or finds them in the cache, where they are kept under a hash of the data and of
// all settings: the tokens of the dataset, cut over all ranks and threads of the group, and the
// plan of the rows. The files are the same bytes at any number of ranks and threads. They appear
// under their names when they are whole. A file that is open already, as that of the tokens where
// rows of the same data are evaluated, is not read again; the others are added. Collective over the
// group.
comm::Agreed<Prepared> prepare(const Preparation& preparation, const PrepareResources& resources,
                               const comm::Group& group, OpenFiles& open);

}  // namespace ringshard::data
