#include "find_batch_size.hpp"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/data/sample_order.hpp"
#include "ringshard/plan/kept_activations.hpp"

namespace ringshard::run {

namespace {

constexpr const char* rows_of_micro_batch = "per_device_train_batch_size";
constexpr const char* micro_batches = "gradient_accumulation_steps";

config::Settings with_micro_batch(const config::Settings& settings, int64_t rows, int64_t all) {
    const config::OptionTable table;
    config::Settings changed = settings.with(rows_of_micro_batch, std::to_string(rows), table)
                                   .with(micro_batches, std::to_string(all / rows), table);
    const config::Origin asked = settings.origin_of("auto_find_batch_size");
    for (const char* const name : {rows_of_micro_batch, micro_batches})
        changed.given.at(name).origin = {asked.strength,
                                         format_text("auto_find_batch_size [{}]", asked.place)};
    return changed;
}

// Returns the rows of a micro-batch that an earlier start of the run has chosen; 0: none.
int64_t earlier_choice(const config::Config& config) {
    if (config.checkpoint.resume_from_checkpoint == "never") return 0;
    const auto record = json_or_null<nlohmann::json>(
        read_file(std::filesystem::path(config.run.output_dir) / "run.json").value_or(""));
    if (!record.is_object() || !record.contains("settings")) return 0;
    const nlohmann::json& settings = record["settings"];
    const auto value = [&](const char* name) {
        return settings.contains(name) ? settings[name].value("value", nlohmann::json())
                                       : nlohmann::json();
    };
    const nlohmann::json rows = value(rows_of_micro_batch);
    return value("auto_find_batch_size") == true && rows.is_number_integer() ? rows.get<int64_t>()
                                                                             : 0;
}

// Plans micro-batches of the rows of a step on one rank.
class BatchSizes {
public:
    BatchSizes(const Planner& planner, const config::Settings& settings, const Placement& placement,
               const RunData& data, double memory)
        : planner_(planner),
          settings_(settings),
          placement_(placement),
          data_(data),
          memory_(memory),
          all_(settings.values.training.per_device_train_batch_size *
               settings.values.training.gradient_accumulation_steps) {
        std::set<int64_t> divisors;
        for (int64_t rows = 1; rows * rows <= all_; ++rows)
            if (all_ % rows == 0) divisors.insert({rows, all_ / rows});
        std::ranges::copy_if(divisors, std::back_inserter(sizes_),
                             [this](int64_t rows) { return rows_of_epoch(rows) > 0; });
    }

    int64_t all() const { return all_; }
    int64_t given() const { return settings_.values.training.per_device_train_batch_size; }

    // Returns the rows of an epoch with those that repeat at its end, or without those that
    // dataloader_drop_last drops.
    int64_t rows_of_epoch(int64_t rows) const {
        const data::SamplerOptions sampler{.num_rows = data_.training.front().size(),
                                           .batch_size = rows,
                                           .num_ranks = placement_.shape.data(),
                                           .drop_last = settings_.values.data.dataloader_drop_last};
        const int64_t dealt = sampler.batches_per_rank() * rows * sampler.num_ranks;
        return sampler.num_ranks == 1 ? std::min(dealt, sampler.num_rows) : dealt;
    }
    int64_t held(int64_t rows) const {
        return answer_of_data(planner_, with_micro_batch(settings_, rows, all_), placement_, data_)
            .held;
    }
    bool fits(int64_t rows) const { return static_cast<double>(held(rows)) <= memory_; }
    bool is_choice(int64_t rows) const {
        return std::ranges::find(sizes_, rows) != sizes_.end() && fits(rows);
    }

    // Returns the largest that fits, or one row. A larger micro-batch takes no less memory.
    int64_t largest() const {
        const auto above = std::ranges::partition_point(
            sizes_.begin() + 1, sizes_.end(), [this](int64_t rows) { return fits(rows); });
        return *std::prev(above);
    }
    int64_t next_above(int64_t rows) const {
        const auto above = std::ranges::upper_bound(sizes_, rows);
        return above == sizes_.end() ? 0 : *above;
    }

private:
    const Planner& planner_;
    const config::Settings& settings_;
    const Placement& placement_;
    const RunData& data_;
    double memory_;
    int64_t all_;
    std::vector<int64_t> sizes_;
};

std::string described(const BatchSizes& sizes, int64_t rows, bool is_earlier) {
    const int64_t above = sizes.next_above(rows);
    const auto bytes = [](int64_t count) { return human_bytes(static_cast<double>(count)); };
    const std::string why =
        is_earlier   ? "as in run.json of output_dir"
        : above == 0 ? "which are all rows of a step"
                     : format_text("{} rows would take {}", above, bytes(sizes.held(above)));
    std::string line = format_text(
        "auto_find_batch_size: {} rows in a micro-batch, {} micro-batches in a step "
        "of a rank's {} rows; a rank holds {}, {}",
        rows, sizes.all() / rows, sizes.all(), bytes(sizes.held(rows)), why);
    const int64_t epoch = sizes.rows_of_epoch(rows);
    const int64_t epoch_as_given = sizes.rows_of_epoch(sizes.given());
    if (epoch != epoch_as_given)
        line += format_text(
            "; an epoch has {} rows, and with {} rows in a micro-batch it would have {}", epoch,
            sizes.given(), epoch_as_given);
    return line;
}

}  // namespace

comm::Agreed<config::Settings> find_batch_size(const CommandContext& context,
                                               const Placement& placement,
                                               const model::ModelSpec& spec, const RunData& data,
                                               const ops::Gemms& gemms, int64_t free_host_memory) {
    const config::Settings& asked = context.settings;
    if (!asked.values.training.auto_find_batch_size) return asked;
    const plan::Device device = smallest_device(context, placement, free_host_memory);
    int64_t rows = 0;
    if (context.world.is_root()) {
        const config::Settings planned = placement.device.is_cuda() ? asked.on_gpus() : asked;
        const PlanArgs args{.world = context.world.size()};
        const Planner planner(spec, device, args, context.environment, placement.num_threads, 0,
                              &gemms);
        const BatchSizes sizes(planner, planned, placement, data,
                               plan::usable_share * device.memory_bytes);
        const int64_t earlier = earlier_choice(asked.values);
        const bool is_earlier = earlier > 0 && sizes.is_choice(earlier);
        rows = is_earlier ? earlier : sizes.largest();
        std::cerr << described(sizes, rows, is_earlier) << '\n';
    }
    rows = context.world.maximum(rows);
    const config::TrainingSettings& training = asked.values.training;
    return with_micro_batch(
        asked, rows, training.per_device_train_batch_size * training.gradient_accumulation_steps);
}

}  // namespace ringshard::run
