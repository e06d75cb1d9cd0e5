#include "foreign_muon.hpp"

namespace ringshard::config {

void set_muon_of_moonlight(ForeignImport& import, const std::string& key) {
    import.set(key, "optim", std::string("muon"));
    const std::string given = import.text("optim_args");
    import.set(given.empty() ? key : "optim_args", "optim_args",
               given + (given.empty() ? "" : ",") + "adjust_lr_fn=match_rms_adamw");
    import.note(key, "weight_decay is for matrices: biases and norms have none");
}

}  // namespace ringshard::config
