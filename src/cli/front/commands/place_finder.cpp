#include "place_finder.hpp"

#include "ringshard/base/text.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/data/sample_places.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::cli {

namespace {

namespace fs = std::filesystem;

// The rows of training, and the rows of the dataset in them.
struct PreparedRows {
    data::Rows rows;
    data::SamplePlaces places;
};

Expected<PreparedRows> open_rows(const fs::path& plan_file) {
    const auto plan = data::ArrayFile::map(plan_file);
    if (!plan) return plan.failure();
    const auto about = text::read_json(plan.value().about());
    const text::Value* const name = about ? about.value().find("tokens_file") : nullptr;
    if (name == nullptr || name->string() == nullptr)
        return Failure{ExitCode::bad_data,
                       format_text("{} holds no plan of rows", plan_file.string())};
    const auto store = data::ArrayFile::map(plan_file.parent_path() / *name->string());
    if (!store) return store.failure();
    auto rows = data::Rows::of(store.value(), plan.value());
    if (!rows) return rows.failure();
    PreparedRows prepared{std::move(rows).value(), data::SamplePlaces(store.value())};
    if (!prepared.places.are_known())
        return Failure{ExitCode::bad_data,
                       format_text("{} was made by an earlier version, which kept no places of "
                                   "rows; remove it, and it is made again",
                                   store.value().name().string())};
    return prepared;
}

std::vector<std::string> places_of(const report::LoggedDocument& document,
                                   const PreparedRows& prepared) {
    std::vector<std::string> found;
    if (document.row < 0 || document.row >= prepared.rows.size()) return found;
    int64_t place = 0;  // of a piece in the row
    bool is_in_document = false;
    for (const data::Piece& piece : prepared.rows.pieces(document.row)) {
        is_in_document = place == document.place || (is_in_document && piece.goes_on != 0);
        if (is_in_document)
            for (std::string& one : prepared.places.of_tokens(piece.begin, piece.length))
                found.push_back(std::move(one));
        place += piece.length;
    }
    return found;
}

}  // namespace

std::optional<Failure> find_places(report::LoggedStep& step) {
    const auto prepared = open_rows(step.rows);
    if (!prepared)
        return Failure{prepared.failure().code,
                       format_text("the rows of the dataset are not named: {}; `trainer prepare` "
                                   "with the settings of the run makes its prepared rows",
                                   prepared.failure().message)};
    for (report::LoggedDocument& document : step.documents)
        document.rows_of_dataset = places_of(document, prepared.value());
    return std::nullopt;
}

}  // namespace ringshard::cli
