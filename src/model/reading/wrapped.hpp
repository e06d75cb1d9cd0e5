#pragma once

#include "../config_reader.hpp"
#include "ringshard/model/model_spec.hpp"

// Models that hold a text model beside other parts (`...ForConditionalGeneration`). Without images
// they compute as their text model does.
namespace ringshard::model {

// A class of transformers for wrapped models.
struct Wrapper {
    const char* text_type;        // text_config.model_type where it is left out
    bool tied;                    // tie_word_embeddings
    bool may_tie_inside = false;  // tie_word_embeddings in text_config ties as well
    bool may_be_flat = false;     // without text_config, its fields lie at the top
};

ModelSpec read_wrapped_model(ConfigReader& config, const Wrapper& wrapper);

}  // namespace ringshard::model
