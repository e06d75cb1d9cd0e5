// What `activation_policy auto` stands for, on devices between one that has room for what keeps
// least and one that has room for everything.
#include "ringshard/plan/kept_activations.hpp"

#include <boost/test/unit_test.hpp>

#include "ringshard/config/config.hpp"
#include "ringshard/plan/room.hpp"

using namespace ringshard;
using config::ActivationPolicies;
using config::ActivationPolicy;
using Runs = std::vector<ActivationPolicies::Run>;

namespace {

constexpr double share = 0.9;  // of the memory, that is divided

class Step {
public:
    Step() : spec_(model::read_model_spec(MODEL).value()) {
        spec_.blocks.resize(9, spec_.blocks.front());
        config_.training.per_device_train_batch_size = 1;
    }
    int64_t held(const ActivationPolicies& policies, bool is_host = true) {
        config_.training.activation_policy = policies;
        return plan::held_bytes(plan::plan_step({config_, spec_, {}, 512}, 1),
                                {.name = "made", .is_host = is_host});
    }
    plan::KeptActivations kept(double room, bool is_host = true) {
        config_.training.activation_policy = ActivationPolicies::automatic();
        return plan::keep_what_fits(
            {config_, spec_, {}, 512},
            {.name = "made", .memory_bytes = room / share, .is_host = is_host}, 1);
    }
    void offload_activations() { config_.training.activation_offloading = true; }

private:
    model::ModelSpec spec_;
    config::Config config_;
};

// The same with one block more that keeps all; nothing where no block is left.
std::optional<ActivationPolicies> one_more(const ActivationPolicies& policies) {
    if (policies.keeps_everything()) return std::nullopt;
    Runs runs = policies.runs();
    if (runs.size() == 1) return ActivationPolicies({{ActivationPolicy::all, 1}, runs.front()});
    if (runs.front().policy != ActivationPolicy::all || runs.size() > 2) return std::nullopt;
    ++*runs.front().blocks;
    return ActivationPolicies(std::move(runs));
}

}  // namespace

BOOST_AUTO_TEST_CASE(as_much_is_kept_as_there_is_room_for) {
    Step step;
    const auto least = static_cast<double>(step.held(ActivationPolicy::input));
    const auto most = static_cast<double>(step.held(ActivationPolicy::all));
    int mixed = 0;
    for (int twelfth = 0; twelfth < 12; ++twelfth) {
        const double part = 0.04 + 0.08 * twelfth;
        const double room = least + part * (most - least);
        const plan::KeptActivations kept = step.kept(room);
        BOOST_TEST_INFO_SCOPE(to_text(kept.policies) << " in " << part << " of the room");
        const int64_t held = step.held(kept.policies);
        BOOST_TEST(plan::held_bytes(kept.plan, {.name = "made", .is_host = true}) == held);
        BOOST_TEST(static_cast<double>(held) <= room);
        if (const auto more = one_more(kept.policies))
            BOOST_TEST(static_cast<double>(step.held(*more)) > room);
        BOOST_TEST(kept.num_plans <= 12);
        mixed += kept.policies.runs().size() > 1 ? 1 : 0;
    }
    BOOST_TEST(mixed > 6);
}

// Only where all blocks keep all, and only on GPUs, whose time goes into passes over rows.
BOOST_AUTO_TEST_CASE(a_gpu_keeps_rows_too) {
    Step step;
    const auto all = static_cast<double>(step.held(ActivationPolicy::all, false));
    const auto everything = static_cast<double>(step.held(ActivationPolicy::everything, false));
    BOOST_TEST(everything > all);
    const auto on_gpu = [&](double room) { return to_text(step.kept(room, false).policies); };
    BOOST_TEST(on_gpu(2 * everything) == "everything");
    BOOST_TEST(to_text(step.kept(9 * everything).policies) == "all");
    const std::string some = on_gpu((all + everything) / 2);
    BOOST_TEST(some.starts_with("everything:"), some);
    BOOST_TEST(some.ends_with(",all"), some);
    BOOST_TEST(!on_gpu(0.8 * all).starts_with("everything"));
    step.offload_activations();
    BOOST_TEST(on_gpu(2 * everything) == "all");
}

BOOST_AUTO_TEST_CASE(the_ends) {
    Step step;
    const auto least = static_cast<double>(step.held(ActivationPolicy::input));
    const auto most = static_cast<double>(step.held(ActivationPolicy::all));
    BOOST_TEST(to_text(step.kept(2 * most).policies) == "all");
    BOOST_TEST(step.kept(2 * most).num_plans == 1);
    BOOST_TEST(to_text(step.kept(least - 1).policies) == "input");
}
