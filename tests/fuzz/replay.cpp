// Runs one reader of files without libFuzzer: replay SEEDS MUTATIONS gives it every file of the
// folder SEEDS, prefixes of each, and so many mutations of each. The mutations depend on nothing
// but the seed, so that a failure comes again. Prints the number of inputs.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"

int try_reader(const uint8_t* data, size_t size);

namespace {

using namespace ringshard;

int64_t read_all(const std::vector<std::string>& inputs) {
    for (const std::string& input : inputs)
        try_reader(reinterpret_cast<const uint8_t*>(input.data()), input.size());
    return static_cast<int64_t>(inputs.size());
}

std::vector<std::string> prefixes(const std::string& seed) {
    constexpr size_t most = 32;
    const size_t count = std::min(most, seed.size());
    std::vector<std::string> all;
    for (size_t i = 0; i < count; ++i) all.push_back(seed.substr(0, i * seed.size() / count));
    return all;
}

size_t below(std::mt19937_64& random, size_t limit) { return random() % limit; }

// Changes one to four places: a bit, a byte, a stretch that goes away or comes twice, or a stretch
// of another seed.
std::string mutate(std::string input, const std::string& other, std::mt19937_64& random) {
    constexpr size_t longest = 64;
    for (size_t change = 0, changes = 1 + below(random, 4); change < changes && !input.empty();
         ++change) {
        const size_t place = below(random, input.size());
        const size_t length = 1 + below(random, std::min(longest, input.size() - place));
        switch (below(random, 5)) {
            case 0: input[place] = static_cast<char>(input[place] ^ (1 << below(random, 8))); break;
            case 1: input[place] = static_cast<char>(below(random, 256)); break;
            case 2: input.erase(place, length); break;
            case 3: input.insert(place, input.substr(place, length)); break;
            default:
                if (!other.empty())
                    input.replace(place, length, other, below(random, other.size()), length);
        }
    }
    return input;
}

}  // namespace

int main(int count, char** arguments) {
    const auto mutations = count == 3 ? read_whole_number(arguments[2]) : std::nullopt;
    if (!mutations) {
        std::cerr << "usage: " << arguments[0] << " SEEDS MUTATIONS\n";
        return number(ExitCode::usage);
    }
    std::vector<std::string> seeds;
    std::error_code error;
    for (const auto& file : folder_entries(arguments[1], error))
        seeds.push_back(read_file(file).value_or(""));
    if (error || seeds.empty()) {
        std::cerr << arguments[1] << ": no seeds\n";
        return number(ExitCode::missing_input);
    }
    std::ranges::sort(seeds);
    std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp): the same inputs in every run
    int64_t inputs = 0;
    for (const std::string& seed : seeds) {
        inputs += read_all({seed}) + read_all(prefixes(seed));
        for (int64_t i = 0; i < *mutations; ++i)
            inputs += read_all({mutate(seed, seeds[below(random, seeds.size())], random)});
    }
    std::cout << inputs << '\n';
    return 0;
}
