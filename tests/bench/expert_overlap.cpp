// bench_expert_overlap MODEL_FOLDER TOKENS SHARE STEPS: two or more ranks share the experts of a
// model, and their rows travel late: every all-to-all takes longer by its bytes, so that all of a
// pass take SHARE of the time of a pass without the delay. Prints a line of JSON for each policy
// and each way to send: all rows of a block at once, and in chunks.
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <random>

#include "mpi_communicator.hpp"
#include "ringshard/comm/mpi_session.hpp"
#include "test_model.hpp"

using namespace ringshard;

namespace {

// Another communicator, and the bytes of its uneven all-to-alls.
class Counted final : public comm::Communicator {
public:
    Counted(std::unique_ptr<comm::Communicator> inner, int64_t& bytes)
        : inner_(std::move(inner)), bytes_(bytes) {}
    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }
    comm::Pending all_reduce(at::Tensor t) override { return inner_->all_reduce(t); }
    comm::Pending all_gather(at::Tensor out, at::Tensor in) override {
        return inner_->all_gather(out, in);
    }
    comm::Pending reduce_scatter(at::Tensor out, at::Tensor in) override {
        return inner_->reduce_scatter(out, in);
    }
    comm::Pending all_to_all(at::Tensor out, at::Tensor in) override {
        return inner_->all_to_all(out, in);
    }
    comm::Pending all_to_all_uneven(at::Tensor out, comm::RowCounts received, at::Tensor in,
                                    comm::RowCounts sent) override {
        bytes_ += static_cast<int64_t>(std::max(out.nbytes(), in.nbytes()));
        return inner_->all_to_all_uneven(out, std::move(received), in, std::move(sent));
    }
    comm::Pending shift(std::vector<comm::Exchange> exchanges) override {
        return inner_->shift(std::move(exchanges));
    }
    comm::Pending broadcast(at::Tensor t, int root) override { return inner_->broadcast(t, root); }

private:
    std::unique_ptr<comm::Communicator> inner_;
    int64_t& bytes_;
};

data::Rows random_rows(int64_t tokens, int64_t vocabulary, int rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    std::vector<int32_t> row;
    for (int64_t i = 0; i < tokens; ++i)
        row.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)));
    data::SampleList samples;
    samples.add(row, row, {{static_cast<int32_t>(tokens)}});
    return test::one_row_each(std::move(samples));
}

double median(std::vector<double> numbers) {
    std::ranges::sort(numbers);
    return numbers[numbers.size() / 2];
}

struct Way {
    const char* name;
    std::optional<model::Chunks> chunks;
};

// A model whose experts' rows travel late.
class Late {
public:
    Late(const comm::Group& world, const std::filesystem::path& folder,
         config::ActivationPolicy policy, const Way& way, std::chrono::duration<double> of_byte)
        : world_(world),
          model_(world, folder,
                 {.shape = {1, world.size(), 1, 1, world.size()},
                  .cuts = {true, true, true, false},
                  .policies = policy,
                  .chunks = way.chunks,
                  .make_communicator = [this, of_byte](const char* name, int64_t, int64_t size) {
                      return make(name, size, of_byte);
                  }}) {}

    struct Pass {
        double seconds;
        double waited;
        int64_t bytes;
    };
    Pass run(const data::Rows& rows) {
        const model::TokenBatch batch = model_.cut(data::flatten(rows, std::vector<int64_t>{0}));
        world_.barrier();
        bytes_ = 0;
        const comm::FlightRecorder& recorder = world_.flight_recorder();
        const double before = recorder.now();
        const double waited = recorder.seconds_waited();
        model_.transformer.forward_backward(batch, 1.0);
        model_.zero.clear_gradients();
        return {recorder.now() - before, recorder.seconds_waited() - waited, bytes_};
    }

private:
    std::unique_ptr<comm::Communicator> make(const std::string& name, int64_t size,
                                             std::chrono::duration<double> of_byte) {
        if (size == 1) return comm::make_self_communicator(at::kCPU);
        comm::Group group = world_.split(0, name);
        if (name != "experts") return comm::make_communicator(std::move(group), at::kCPU);
        return std::make_unique<Counted>(
            std::make_unique<comm::MpiCommunicator>(
                std::move(group), comm::MpiCommunicator::Link{.delay_of_byte = of_byte}),
            bytes_);
    }

    const comm::Group& world_;
    int64_t bytes_ = 0;
    test::TestModel model_;
};

struct Question {
    std::filesystem::path folder;
    int64_t tokens;
    double share;  // of a pass that the delay takes
    int steps;
};

// The largest of all ranks, in whole microseconds.
double longest(const comm::Group& world, double seconds) {
    return 1e-6 * static_cast<double>(world.maximum(static_cast<int64_t>(1e6 * seconds)));
}

void measure(const comm::Group& world, const Question& question, const char* policy_name,
             config::ActivationPolicy policy, const Way& way) {
    const auto make = [&](double of_byte) {
        return std::make_unique<Late>(world, question.folder, policy, way,
                                      std::chrono::duration<double>(of_byte));
    };
    const auto prompt = make(0);
    const data::Rows rows = random_rows(question.tokens, 1024, world.rank());
    const Late::Pass first = prompt->run(rows);
    const double pass = longest(world, std::min(first.seconds, prompt->run(rows).seconds));
    const double of_byte = question.share * pass / static_cast<double>(world.maximum(first.bytes));
    const auto late = make(of_byte);
    late->run(rows);
    std::vector<double> opened;
    std::vector<double> slowed;
    std::vector<double> passes;
    for (int step = 0; step < question.steps; ++step) {
        const Late::Pass without = prompt->run(rows);
        const Late::Pass with = late->run(rows);
        opened.push_back(with.waited - without.waited);
        slowed.push_back(with.seconds - without.seconds);
        passes.push_back(without.seconds);
    }
    const double delay = of_byte * static_cast<double>(first.bytes);
    const double open = longest(world, median(opened));
    const double slower = longest(world, median(slowed));
    if (!world.is_root()) return;
    std::cout << "{\"keeps\": \"" << policy_name << "\", \"rows\": \"" << way.name
              << "\", \"pass_s\": " << median(passes) << ", \"delay_s\": " << delay
              << ", \"waited_more_s\": " << open << ", \"slower_s\": " << slower
              << ", \"hidden\": " << 1 - std::max(0.0, open) / delay << "}" << std::endl;
}

}  // namespace

int main(int count, char** arguments) {
    const comm::MpiSession session;
    const c10::InferenceMode no_gradients;
    RINGSHARD_CHECK(count == 5, "MODEL_FOLDER TOKENS SHARE STEPS");
    const Question question{arguments[1], std::stoll(arguments[2]), std::stod(arguments[3]),
                            std::stoi(arguments[4])};
    const std::vector<Way> ways{{"at once", model::Chunks{.rows_of_expert = int64_t{1} << 40}},
                                {"in chunks", std::nullopt}};
    for (const auto& [name, policy] : {std::pair{"all", config::ActivationPolicy::all},
                                       std::pair{"attention", config::ActivationPolicy::attention}})
        for (const Way& way : ways) measure(session.world(), question, name, policy, way);
    return 0;
}
