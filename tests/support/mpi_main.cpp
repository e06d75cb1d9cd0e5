// main() of the tests that run under mpirun: every rank runs every case, reports come one rank
// after another, and the worst result is everybody's. Between collectives use BOOST_TEST, which
// goes on; BOOST_TEST_REQUIRE leaves the case, and the guard below then ends the job instead of
// hanging it.
#define BOOST_TEST_NO_MAIN
#include <mpi.h>

#include <boost/test/results_reporter.hpp>
#include <boost/test/tree/observer.hpp>
#include <boost/test/unit_test.hpp>
#include <boost/test/unit_test_log.hpp>
#include <iostream>
#include <sstream>

#include "mpi_test.hpp"

namespace ut = boost::unit_test;

namespace {

const ringshard::comm::Group* the_world = nullptr;  // Boost.Test passes cases no arguments

std::ostringstream& report() {
    static std::ostringstream stream;
    return stream;
}

class EndJobWhenOneRankLeaves : public ut::test_observer {
public:
    // After Boost's own observer of the start, which has no value to look at before it was called.
    int priority() override { return 10; }
    void test_unit_aborted(const ut::test_unit& unit) override {
        if (the_world->size() == 1) return;
        std::cerr << "rank " << the_world->rank() << " left " << unit.full_name() << " early\n"
                  << report().str() << std::flush;
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
};

bool begin() {
    static EndJobWhenOneRankLeaves guard;
    // Boost.Test sets its streams when it starts, so they are redirected here and not before.
    ut::unit_test_log.set_stream(report());
    ut::results_reporter::set_stream(report());
    ut::framework::register_observer(guard);
    return true;
}

}  // namespace

const ringshard::comm::Group& ringshard::test::world() { return *the_world; }

int main(int argc, char** argv) {
    const ringshard::comm::MpiSession mpi;
    const ringshard::comm::Group harness(
        mpi.world().handle());  // never meets the messages of a test
    the_world = &mpi.world();
    const int mine = ut::unit_test_main(&begin, argc, argv);
    for (int rank = 0; rank < harness.size(); ++rank) {
        harness.barrier();
        if (rank == harness.rank() && (rank == 0 || mine != 0))
            std::cerr << "rank " << rank << " of " << harness.size() << "\n"
                      << report().str() << std::flush;
    }
    return static_cast<int>(harness.maximum(mine));
}
