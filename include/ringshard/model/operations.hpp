#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ringshard/attention/plan.hpp"
#include "ringshard/config/activation_policies.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// Words of the names of a GPU's kernels, where a part of a step has some for itself.
struct KernelWords {
    std::vector<std::string> forward{};
    std::vector<std::string> backward{};
    bool has_products = false;  // beside products by a library
    KernelWords& operator+=(const KernelWords& other) {
        return other.forward.empty() ? *this : *this = other;
    }
};

// Numbers of multiplications and additions, of a forward pass unless the member names another.
struct Operations {
    double products = 0;        // of a token, with weights
    double products_again = 0;  // the part of them that the backward pass recomputes
    // In the backward pass: twice as many, less the gradients of frozen weights, and none below the
    // lowest block that has something to train.
    double products_backward = 0;
    // The same by the names of the products: the sums of these are the members above.
    struct OfProduct {
        double forward = 0;
        double again = 0;
        double of_inputs = 0;   // their gradients
        double of_weights = 0;  // their gradients
        KernelWords kernels{};
        OfProduct& operator+=(const OfProduct& other);
    };
    using ByProduct = std::map<std::string, OfProduct>;
    ByProduct by_product{};
    // The part of these that a run with products in FP8 computes so, and the numbers that it
    // quantises for them: of a token, and of all weights in a forward and a backward pass.
    struct InFp8 {
        double products = 0;
        double products_again = 0;
        double products_backward = 0;
        ByProduct by_product{};
        double numbers = 0;
        double numbers_of_weights = 0;
    };
    InFp8 in_fp8{};
    // For one query and one key that it sees, in all blocks with a mask.
    struct OfPair {
        double attention = 0;
        double attention_again = 0;  // the part of it that the backward pass recomputes
        double attention_backward = 0;
        // Numbers of a token: results and gradients, which each step of a ring adds to.
        double merged = 0;
        KernelWords kernels{};
    };
    std::map<attention::Mask, OfPair> of_pair{};
    // What kernels of rows, which are bound by memory, read and write on a GPU, by the name of the
    // part of a plan.
    struct OfRows {
        double numbers = 0;                  // of a token
        std::vector<std::string> kernels{};  // words of their names
    };
    std::map<std::string, OfRows> rows{};
    double rows_of_host = 0;  // numbers of a token, about

    // Returns the operations of a forward and a backward pass over whole documents, without
    // recomputation.
    double of_training(std::span<const int64_t> document_lengths) const;

    Operations& operator+=(const Operations& other);
};

// Returns the operations of a model with these activation policies.
Operations operations_of(const ModelSpec& spec, const config::ActivationPolicies& policies = {});

// The weight of a linear layer, [out, in].
struct WeightShape {
    int64_t out;
    int64_t in;
    auto operator<=>(const WeightShape&) const = default;
};
// Returns the weights of all linear layers, the head's among them, each shape once, ascending.
std::vector<WeightShape> linear_layers(const ModelSpec& spec);

}  // namespace ringshard::model
