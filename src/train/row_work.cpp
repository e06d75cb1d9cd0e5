#include "row_work.hpp"

#include <cmath>

namespace ringshard::train {

namespace {

constexpr double unit = 1000;  // operations: the largest batch that there can be fits

std::vector<int64_t> document_lengths(std::span<const data::Piece> pieces) {
    std::vector<int64_t> lengths;
    for (const data::Piece& piece : pieces) {
        if (piece.goes_on == 0 || lengths.empty()) lengths.push_back(0);
        lengths.back() += piece.length;
    }
    return lengths;
}

}  // namespace

double operations_of_rows(const model::Operations& operations, const data::Rows& rows,
                          std::span<const int64_t> numbers) {
    double sum = 0;
    for (const int64_t row : numbers)
        sum += operations.of_training(document_lengths(rows.pieces(row)));
    return sum;
}

std::vector<double> largest_of_rounds(std::span<const double> mine, const comm::Group& world) {
    std::vector<int64_t> rounded;
    for (const double operations : mine) rounded.push_back(std::llround(operations / unit));
    std::vector<double> largest;
    for (const int64_t operations : world.maximum(std::move(rounded)))
        largest.push_back(unit * static_cast<double>(operations));
    return largest;
}

}  // namespace ringshard::train
