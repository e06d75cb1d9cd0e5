// bench_packing MAX_LENGTH PROBLEM_SIZE < lengths, one per line: the seconds that packing takes,
// and with every row gathered from the store as well, as the loader does.
#include <chrono>
#include <iostream>
#include <string>

#include "packing.hpp"
#include "ringshard/config/data_settings.hpp"
#include "ringshard/data/rows.hpp"

using namespace ringshard;
using Clock = std::chrono::steady_clock;

int main(int argc, char** argv) {
    if (argc != 3) return 64;
    data::SampleList samples;
    std::vector<data::Piece> documents;
    for (int64_t length = 0; std::cin >> length;) {
        const std::vector<int32_t> tokens(static_cast<size_t>(length), 7);
        documents.push_back({samples.tokens.size(), static_cast<uint32_t>(length)});
        samples.add(tokens, tokens);
    }
    const data::TokenStore store(std::move(samples));
    const auto seconds_since = [](Clock::time_point start) {
        return std::chrono::duration<double>(Clock::now() - start).count();
    };
    const auto start = Clock::now();
    data::RowPlan plan =
        data::pack(documents, config::PackingStrategy::bfd,
                   static_cast<uint32_t>(std::stoul(argv[1])), std::stoul(argv[2]));
    const double planned = seconds_since(start);
    const data::Rows rows(store, std::move(plan));
    size_t tokens = 0;
    for (int64_t row = 0; row < rows.size(); ++row) {
        data::FlatBatch batch;
        rows.append(row, batch);
        tokens += batch.tokens.size();
    }
    std::cout << "{\"planned_s\": " << planned << ", \"gathered_s\": " << seconds_since(start)
              << ", \"rows\": " << rows.size() << ", \"tokens\": " << tokens << "}\n";
}
