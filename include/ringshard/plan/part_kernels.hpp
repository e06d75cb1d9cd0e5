#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringshard::plan {

// Words by which a profile of a GPU tells the kernels of a part of a step. A kernel belongs to the
// part with the longest word that is in its name.
struct PartKernels {
    std::string part;
    std::vector<std::string> words;
};

// Returns the words of products with weights.
const std::vector<std::string>& product_kernels();

// Returns the words of a part that the plan counts, by its name: "loss". A part that no kernel has
// for itself has those of the products. Parts of a block bring their own (model::KernelWords).
std::vector<std::string> kernels_of(std::string_view part);

// Returns the kernels of a step whose time the plan does not count.
const std::vector<PartKernels>& uncounted_kernels();

}  // namespace ringshard::plan
