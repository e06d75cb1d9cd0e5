#pragma once

#include <filesystem>

#include "component.hpp"
#include "ringshard/config/logging_settings.hpp"
#include "spikes.hpp"

namespace ringshard::train {

// Writes the documents of spikes, or of each step, into output_dir/documents.jsonl: a line of rank
// 0 for a step. Ranks exchange the sums of documents for these steps alone.
// Lines of steps that a later attempt repeats stay there, and readers leave them out.
class DocumentLog : public Component {
public:
    // The arguments must outlive it.
    DocumentLog(const RunParts& parts, Log& log);

    std::optional<comm::AgreedFailure> after_step(int64_t step,
                                                  const StepNumbers& numbers) override;

private:
    void write(int64_t step, const std::string& line);

    const comm::Group& world_;
    Trainer& trainer_;
    Log& log_;
    config::DocumentLogging steps_;
    Spikes spikes_;
    std::filesystem::path file_;
    std::filesystem::path rows_;  // the file of the rows of training
    int64_t attempt_;
    int64_t num_lost_ = 0;  // steps since the disk took a line
};

}  // namespace ringshard::train
