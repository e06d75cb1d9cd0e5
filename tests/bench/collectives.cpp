// Milliseconds of collectives on fp32 tensors; one JSON line per operation and size. Run under
// mpirun.
//   collectives [repetitions]
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <vector>

#include "ringshard/base/timer.hpp"
#include "ringshard/comm/communicator.hpp"
#include "ringshard/comm/mpi_session.hpp"

using namespace ringshard;

namespace {

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

double median_ms(const comm::Group& world, int repetitions,
                 const std::function<comm::Pending()>& operation) {
    std::vector<double> times;
    for (int i = 0; i < repetitions + 2; ++i) {
        world.barrier();
        const Timer timer;
        operation().wait();
        if (i >= 2) times.push_back(timer.seconds() * 1e3);
    }
    return median(times);
}

}  // namespace

int main(int argc, char** argv) {
    const int repetitions = argc > 1 ? std::atoi(argv[1]) : 10;
    const comm::MpiSession mpi;
    const comm::Group& world = mpi.world();
    const auto communicator = comm::make_communicator(world.split(0, "test"), at::kCPU);
    const int64_t size = world.size();
    for (const int64_t mebibytes : {16, 64}) {
        const int64_t whole = mebibytes * (1 << 18);
        at::Tensor a = at::ones({whole});
        at::Tensor part = at::ones({whole / size});
        const std::pair<const char*, double> results[] = {
            {"all_reduce",
             median_ms(world, repetitions, [&] { return communicator->all_reduce(a); })},
            {"reduce_scatter",
             median_ms(world, repetitions, [&] { return communicator->reduce_scatter(part, a); })},
            {"all_gather",
             median_ms(world, repetitions, [&] { return communicator->all_gather(a, part); })}};
        for (const auto& [operation, milliseconds] : results)
            if (world.is_root())
                std::cout << R"({"operation": ")" << operation << R"(", "mib": )" << mebibytes
                          << R"(, "ranks": )" << size << R"(, "ms": )" << milliseconds << "}\n";
    }
}
