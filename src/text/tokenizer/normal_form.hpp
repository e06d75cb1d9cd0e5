#pragma once

#include "passage.hpp"

namespace ringshard::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Whether the text is in that form for certain, which is seen without normalizing it.
bool is_in_form(std::string_view text, NormalForm form);

void normalize(const Passage& from, NormalForm form, TrackedText& into, bool track);

}  // namespace ringshard::text
