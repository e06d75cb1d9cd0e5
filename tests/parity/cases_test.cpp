// The result does not depend on the layout: the runs of a list (cases/*.txt), each against the same
// run on one rank. Every line: ranks, model, rows, micro-batches of a step, type (of the
// computation, and of the residual stream where it has its own), settings of the trainer. Runs the
// lines for the size of this world.
//
//     cases_parity [boost's arguments] -- FILE...
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include <boost/test/unit_test.hpp>

#include "golden.hpp"
#include "layout_run.hpp"
#include "mpi_test.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/config/resolve.hpp"

using namespace ringshard;

namespace {

constexpr int64_t rows_per_micro_batch = 8;  // over all data ranks
constexpr int64_t num_rows = 3 * rows_per_micro_batch;
constexpr int64_t num_steps = 20;
constexpr int longest_row = 60;

struct Case {
    std::string line;
    int ranks = 0;
    std::string model;
    std::string rows;
    int64_t accumulation = 0;
    std::string type;
    std::vector<std::string> settings{};

    bool is_bf16() const { return type.starts_with("bf16"); }
    // Runs that must come to the same.
    std::string reference() const { return concat(model, rows, accumulation, type); }
    test::RowKind row_kind() const {
        if (rows == "uneven") return test::RowKind::uneven;
        return rows == "packed" ? test::RowKind::packed : test::RowKind::one_document;
    }
    test::LayoutRun on_one_rank() const {
        return {.model = test::golden_folder() / "models" / model,
                .compute = is_bf16() ? at::kBFloat16 : at::kFloat,
                .residual = type == "bf16/fp32" ? std::optional(at::kFloat) : std::nullopt,
                .accumulation = accumulation,
                .rows_per_device = rows_per_micro_batch,
                .num_steps = num_steps};
    }
};

std::vector<Case> read_cases(const std::vector<std::string>& files) {
    std::vector<Case> cases;
    for (const std::string& file : files) {
        std::ifstream lines(file);
        BOOST_REQUIRE_MESSAGE(lines, file << " cannot be read");
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            Case found;
            found.line = line;
            if (line.starts_with('#') || !(words >> found.ranks)) continue;
            words >> found.model >> found.rows >> found.accumulation >> found.type;
            BOOST_REQUIRE_MESSAGE(words, file << ": " << line);
            for (std::string word; words >> word;) found.settings.push_back(word);
            cases.push_back(found);
        }
    }
    return cases;
}

test::LayoutRun in_its_layout(const Case& wanted) {
    const config::Resolution resolved =
        config::resolve(config::OptionTable(), wanted.settings, Environment());
    for (const Failure& problem : resolved.problems) BOOST_ERROR(problem.message);
    test::LayoutRun run = wanted.on_one_rank();
    run.cuts = mesh::cuts_of(resolved.settings.values.parallel);
    run.context_parallel = model::context_parallel_options(resolved.settings.values.parallel);
    run.shape = mesh::choose_shape(resolved.settings, wanted.ranks, 1).value();
    run.rows_per_device = rows_per_micro_batch / run.shape.data();
    return run;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_case_gives_the_numbers_of_one_rank) {
    const auto& suite = boost::unit_test::framework::master_test_suite();
    const comm::Group alone(MPI_COMM_SELF);
    const comm::Group& world = test::world();
    std::map<std::string, test::Outcome> references;  // of rank 0, which does the comparing
    int num_cases = 0;
    for (const Case& wanted : read_cases({suite.argv + 1, suite.argv + suite.argc})) {
        if (wanted.ranks != world.size()) continue;
        ++num_cases;
        const data::Rows rows = test::make_rows(wanted.row_kind(), num_rows, longest_row);
        if (world.is_root() && !references.contains(wanted.reference()))
            references[wanted.reference()] = test::train(alone, wanted.on_one_rank(), rows);
        (void)world.sum(1);  // the others sleep until then, and leave it their cores
        const test::LayoutRun layout = in_its_layout(wanted);
        const test::Outcome outcome = test::train(world, layout, rows);
        if (!world.is_root()) continue;
        BOOST_TEST_INFO_SCOPE(wanted.line);
        const train::StepNumbers& last = outcome.steps.back();
        BOOST_TEST((last.attention_work_mean > 0) == (layout.shape.ring > 1));
        BOOST_TEST(last.attention_work_worst <= 1.3 * last.attention_work_mean);  // short rows
        const test::Outcome& reference = references.at(wanted.reference());
        if (wanted.is_bf16())
            test::expect_no_drift(outcome, reference);
        else
            test::expect_equal(outcome, reference);
        std::cout << "compared: " << wanted.line << std::endl;  // how far, if the time ends
    }
    BOOST_TEST_MESSAGE(num_cases << " cases on " << world.size() << " ranks");
    BOOST_TEST(num_cases > 0);
}

// Rows per device x micro-batches x devices.
BOOST_AUTO_TEST_CASE(the_same_32_rows_of_a_step_in_three_ways) {
    const comm::Group& world = test::world();
    if (world.size() != 8) return;
    const data::Rows rows = test::make_rows(test::RowKind::one_document, 96, longest_row);
    const auto run = [&](const comm::Group& group, int64_t rows_per_device, int64_t accumulation) {
        return test::train(group,
                           {.model = test::golden_folder() / "models" / "qwen2-tiny",
                            .shape = {.replicate = group.size()},
                            .accumulation = accumulation,
                            .rows_per_device = rows_per_device,
                            .num_steps = num_steps},
                           rows);
    };
    const test::Outcome on_eight = run(world, 1, 4);
    if (!world.is_root()) return;
    const comm::Group alone(MPI_COMM_SELF);
    const test::Outcome one_by_one = run(alone, 1, 32);
    test::expect_equal(run(alone, 8, 4), one_by_one);
    test::expect_equal(on_eight, one_by_one);
}
