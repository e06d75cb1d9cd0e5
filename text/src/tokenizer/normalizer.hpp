#pragma once

#include <memory>
#include <vector>

#include "json_reader.hpp"
#include "passage.hpp"

namespace ringshard::text {

// One change of the whole text: NFC, Lowercase, Replace, ...
class NormalizerStep {
public:
    virtual ~NormalizerStep() = default;
    // Writes the changed text to `texts`; returns `from` if there is no change.
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
