// bench_journal: what it costs to note an operation with other ranks, from its begin to its end.
// One line of JSON.
#include <iostream>
#include <memory>

#include "ringshard/base/timer.hpp"
#include "ringshard/comm/journal.hpp"

using namespace ringshard;

int main() {
    const auto journal = std::make_shared<comm::Journal>();
    const auto page = journal->open_page("zero", 0);
    constexpr int operations = 1'000'000;
    const Timer timer;
    for (int i = 0; i < operations; ++i)
        const comm::JournalPage::Operation noted(*page, "all-gather", 4096);
    std::cout << "{\"seconds_per_operation\": " << timer.seconds() / operations << "}\n";
}
