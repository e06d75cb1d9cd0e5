#pragma once

#include <memory>
#include <string>
#include <vector>

#include "json_reader.hpp"

namespace ringshard::text {

// Converts tokens to text in steps, each from tokens to tokens; then joins the last ones.
class DecoderStep {
public:
    virtual ~DecoderStep() = default;
    virtual void apply(std::vector<std::string>& tokens) const = 0;
};

class Decoder {
public:
    Decoder() = default;
    explicit Decoder(const Json& decoder);
    // Without a decoder, joins tokens with spaces.
    std::string decode(std::vector<std::string> tokens) const;

private:
    void add(const Json& decoder);
    std::vector<std::unique_ptr<DecoderStep>> steps_;
    bool is_none_ = true;
};

}  // namespace ringshard::text
