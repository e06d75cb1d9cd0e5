#pragma once

#include "passage.hpp"

namespace ringshard::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Returns true if a quick check shows that the text has that form.
bool is_in_form(std::string_view text, NormalForm form);

void normalize(const Passage& from, NormalForm form, TrackedText& into, bool track);

}  // namespace ringshard::text
