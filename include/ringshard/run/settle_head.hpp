#pragma once

#include "ringshard/base/hub_cache.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::run {

// The token that fills rows up, which is no part of a document whose scores a head gives.
Expected<int64_t> find_padding_token(const config::Config& config, const HubCache& hub);

// Gives the model a head of scores where the method learns them. Fails if the head that the model
// has is not that of the method.
std::optional<Failure> settle_head(const config::Settings& settings, int64_t padding,
                                   model::ModelSpec& spec);

}  // namespace ringshard::run
