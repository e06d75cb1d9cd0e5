#pragma once

#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/ops/gemm.hpp"
#include "ringshard/ops/rope.hpp"

namespace ringshard::model {

// What all blocks of a batch share.
struct BlockContext {
    const attention::SequenceAttention& attention;
    const attention::Plan& plan;
    const ops::RopeTable& rope;
    const ops::Gemms& gemms;
    config::ActivationPolicy policy;
    int64_t mlp_chunk;  // tokens
};

}  // namespace ringshard::model
