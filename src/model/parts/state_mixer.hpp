#pragma once

#include "mixer.hpp"
#include "state_path.hpp"

namespace ringshard::model {

// A mixer of one product before and one behind a path through states.
class StateMixer : public Mixer {
public:
    bool is_projected(const Saved& saved) const override { return path_.has_rows(saved); }
    bool is_projected_again(config::ActivationPolicy policy) const override {
        return path_.is_projected_again(policy);
    }
    void add_costs(StageCosts& costs, bool makes_output_again) const override {
        path_.add_costs(costs, *first_product(), *last_product(), makes_output_again);
    }
    void make_cache(LayerCache& cache, int64_t, int64_t texts,
                    const at::TensorOptions& options) const override {
        path_.make_cache(cache, texts, options);
    }
    // Its plans are of the host.
    bool can_be_recorded(const BlockContext&) const override { return false; }

protected:
    StateMixer(SavedLayout& saved, const attention::DeltaSizes& sizes) : path_(saved, sizes) {}

    StatePath path_;
};

}  // namespace ringshard::model
