#pragma once

#include <memory>
#include <vector>

#include "json_reader.hpp"
#include "passage.hpp"

namespace ringshard::text {

// One change that is made to all text: NFC, Lowercase, Replace, ...
class NormalizerStep {
public:
    virtual ~NormalizerStep() = default;
    // Writes into `texts` what it changes; returns the passage itself where there is nothing to do.
    virtual Passage apply(const Passage& from, TurnTaking& texts, bool track) const = 0;
};

class Normalizer {
public:
    Normalizer() = default;
    explicit Normalizer(const Json& normalizer);

    Passage apply(Passage passage, TurnTaking& texts, bool track) const;
    std::string apply(std::string_view text) const;

private:
    void add(const Json& normalizer);
    std::vector<std::unique_ptr<NormalizerStep>> steps_;
};

}  // namespace ringshard::text
