#pragma once

#include "ringshard/data/prepare.hpp"
#include "work_list.hpp"

namespace ringshard::data {

// Files, and the slices of splits that they belong to.
struct Inputs {
    std::vector<InputFile> files;
    std::vector<InputSlice> slices;
};

// Rank 0 looks for the files; it alone has the warnings. Collective over the group.
comm::Agreed<Inputs> find_inputs(const Preparation& preparation, const HubCache& hub,
                                 const comm::Group& group, std::vector<std::string>& warnings);

}  // namespace ringshard::data
