#pragma once

#include "ringshard/data/prepare.hpp"
#include "work_list.hpp"

namespace ringshard::data {

// Input files, and the slices of splits to which they belong.
struct Inputs {
    std::vector<InputFile> files;
    std::vector<InputSlice> slices;
};

// Rank 0 finds the files; only it has the warnings. Collective over the group.
comm::Agreed<Inputs> find_inputs(const Preparation& preparation, const HubCache& hub,
                                 const comm::Group& group, std::vector<std::string>& warnings);

}  // namespace ringshard::data
