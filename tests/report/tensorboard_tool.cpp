// tensorboard_tool FOLDER FIRST_STEP: writes lines "<step> <time> <key>=<value> ..." from stdin as
// events.
#include <iostream>
#include <sstream>
#include <vector>

#include "ringshard/base/error.hpp"
#include "tensorboard.hpp"

using namespace ringshard;

int main(int argc, char** argv) {
    RINGSHARD_CHECK(argc == 3);
    auto made =
        report::TensorBoardFile::create(argv[1], "a-host", 1700000000.25, std::stoll(argv[2]));
    if (!made) {
        std::cerr << made.failure().message << '\n';
        return number(made.failure().code);
    }
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        int64_t step = 0;
        double time = 0;
        words >> step >> time;
        std::vector<report::Scalar> scalars;
        for (std::string word; words >> word;) {
            const size_t equals = word.find('=');
            scalars.push_back({report::tensorboard_tag(word.substr(0, equals)),
                               std::stod(word.substr(equals + 1))});
        }
        if (const auto failure = made.value().add(step, time, scalars)) throw Error(*failure);
    }
    if (const auto failure = made.value().flush()) throw Error(*failure);
    std::cout << made.value().path().string() << '\n';
}
