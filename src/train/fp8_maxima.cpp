#include "fp8_maxima.hpp"

namespace ringshard::train {

void Fp8Maxima::save(checkpoint::Contents contents, checkpoint::Extras& extras) const {
    extras.texts.erase(model::fp8_history_text);
    if (contents == checkpoint::Contents::everything && world_.is_root())
        extras.texts[model::fp8_history_text] = scaling_.to_text();
}

}  // namespace ringshard::train
