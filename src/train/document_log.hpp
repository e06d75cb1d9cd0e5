#pragma once

#include <filesystem>

#include "component.hpp"
#include "ringshard/config/logging_settings.hpp"
#include "spikes.hpp"

namespace ringshard::train {

// Writes the documents of spikes, or of each step, into output_dir/documents.jsonl: a line of rank
// 0 for a step. Ranks exchange the sums of documents for these steps alone. A pass whose numbers
// are not finite, after which the run ends or goes back, has a line too.
// Lines of steps that a later attempt repeats stay there, and readers leave them out. Checkpoints
// have the numbers by which it judges spikes, so that a run that goes on finds the same ones.
class DocumentLog : public Component {
public:
    // The arguments must outlive it.
    DocumentLog(const RunParts& parts, Log& log);

    std::optional<comm::AgreedFailure> begin(const Texts& texts) override;
    std::optional<comm::AgreedFailure> after_step(int64_t step,
                                                  const StepNumbers& numbers) override;
    void after_lost_step(int64_t step, const StepNumbers& numbers) override;
    void save(checkpoint::Contents contents, checkpoint::Extras& extras) const override;

private:
    void log(int64_t step, const std::string& spike, const StepNumbers& numbers);
    void write(int64_t step, const std::string& line);

    const comm::Group& world_;
    Trainer& trainer_;
    Log& log_;
    config::DocumentLogging steps_;
    Spikes spikes_;
    std::filesystem::path file_;
    std::filesystem::path resumed_from_;
    std::filesystem::path rows_;  // the file of the rows of training
    int64_t attempt_;
    int64_t num_lost_ = 0;  // steps since the disk took a line
};

}  // namespace ringshard::train
