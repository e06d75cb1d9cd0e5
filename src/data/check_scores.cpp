#include "check_scores.hpp"

#include <algorithm>

#include "ringshard/base/text.hpp"
#include "ringshard/data/sample_places.hpp"
#include "ringshard/data/token_store.hpp"
#include "score_index.hpp"

namespace ringshard::data {

std::optional<Failure> check_scored(const ScoreChoice& choice, const Rows& rows,
                                    const ArrayFile& store_file, int64_t first_sample,
                                    const ArrayFile& scores) {
    const auto has_scores = scores.array<uint8_t>("has_scores");
    const auto samples = store_file.array<Sample>("samples");
    for (int64_t row = 0; row < rows.size(); ++row)
        for (const Piece& piece : rows.pieces(row)) {
            if (piece.length == 0) continue;
            const auto next = std::ranges::upper_bound(samples, piece.begin, {}, &Sample::begin);
            const auto sample = next - samples.begin() - 1;
            if (sample < first_sample) continue;
            if (has_scores[static_cast<size_t>(sample - first_sample)] != 0) continue;
            const SamplePlaces places(store_file);
            const std::vector<std::string> place =
                places.are_known() ? places.of_tokens(piece.begin, 1) : std::vector<std::string>();
            return refuse_scores(
                choice,
                format_text("has no scores of {}: no row there has its tokens, of which there are "
                            "{}; {}",
                            place.empty() ? format_text("sample {}", sample) : place.front(),
                            rows.store().length(sample), choice.cure));
        }
    return std::nullopt;
}

std::optional<Failure> check_both_kinds(const Preparation& preparation, const Rows& rows,
                                        int64_t first_sample) {
    const uint64_t begin = rows.store().sample(first_sample).begin;
    const auto has_kind = [&](bool is_anchor) {
        for (int64_t row = 0; row < rows.size(); ++row)
            for (const Piece& piece : rows.pieces(row))
                if (piece.length > 0 && (piece.begin >= begin) == is_anchor) return true;
        return false;
    };
    for (const bool is_anchor : {false, true}) {
        if (has_kind(is_anchor)) continue;
        const DatasetName& dataset =
            (is_anchor ? preparation.sources.back() : preparation.sources.front()).dataset;
        return Failure{ExitCode::bad_data,
                       format_text("{} = {}: no row has anything to learn{}; give rows with "
                                   "labels, or leave the anchor out",
                                   dataset.setting, shown_name(dataset),
                                   preparation.rows.max_length ? " within max_length" : "")};
    }
    return std::nullopt;
}

}  // namespace ringshard::data
