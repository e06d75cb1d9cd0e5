// Any number of ranks writes what any other number reads: one file or one per node, past HDF5 or
// through it.
#include <c10/core/InferenceMode.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "made_state.hpp"
#include "mpi_test.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/saver.hpp"
#include "ringshard/checkpoint/survey.hpp"
#include "ringshard/config/parallel_settings.hpp"
#include "ringshard/config/training_settings.hpp"

using namespace ringshard;
using namespace ringshard::checkpoint;

namespace {

const mesh::Cuts everything{true, true, true, false};

// Three units: one where ranks share rows of a matrix, one of many tensors, and one that is so
// small that most of eight ranks own nothing of it.
std::vector<shard::FlatUnit> make_units(int64_t parts) {
    using shard::FlatUnit;
    return {FlatUnit("embedding", {{{{"embed", {13, 7}}}}}, parts),
            FlatUnit("block",
                     {{{{"q", {5, 9}}, {"k", {3, 9}}, {"v", {3, 9}}}},
                      {{{"cube", {3, 4, 5}}}},
                      {{{"bias", {11}}}}},
                     parts),
            FlatUnit("norm", {{{{"norm", {3}}}}}, parts)};
}

config::TrainingSettings with_moments(config::NumberType type) {
    config::TrainingSettings settings;
    settings.optimizer_state_dtype = type;
    return settings;
}

// A folder that all ranks of the test know.
struct SharedFolder {
    SharedFolder()
        : path(test::world().broadcast(
              (std::filesystem::temp_directory_path() / format_text("ringshard_save_{}", getpid()))
                  .string())) {}
    ~SharedFolder() {
        test::world().barrier();
        std::error_code ignored;
        if (test::world().is_root()) std::filesystem::remove_all(path, ignored);
        test::world().barrier();
    }
    std::filesystem::path path;
    Faults faults;
    c10::InferenceMode no_autograd;
};

// Runs on the first `ranks` ranks alone; the others wait.
template <class Work>
void on_ranks(int ranks, Work work) {
    const comm::Group group = test::world().split(test::world().rank() < ranks ? 0 : 1, "test");
    if (test::world().rank() < ranks) work(group);
    test::world().barrier();
}

SaveOutcome save(const comm::Group& group, const std::filesystem::path& output, int64_t step,
                 const mesh::MeshShape& shape, const SaveOptions& options, Faults& faults,
                 config::NumberType moments = config::NumberType::fp32,
                 Contents contents = Contents::everything,
                 const std::vector<ModelFile>& model = {}) {
    const auto settings = with_moments(moments);
    test::MadeState state(group, shape, make_units(shape.zero()), everything, settings);
    state.fill(step);
    std::filesystem::create_directories(output);
    const auto store = Store::open(group, [&]() -> Expected<Claim> {
        return *claim_attempt(output, newest_attempt(output).value() + 1).value();
    });
    BOOST_TEST_REQUIRE(static_cast<bool>(store));
    BOOST_TEST(!store.value().record_start(step - 1));
    Saver saver(store.value(), options, group, faults);
    saver.start({step, {}, {{{1, 2}, 3}}}, state.zero, *state.optimizer, contents,
                {{{"config.json", "{}"}}, {{"settings", "a: 1\n"}}, model}, {}, step % 2 == 0);
    state.fill(step + 1);  // what is copied does not change any more
    if (step % 2 != 0) state.fill(step);
    SaveOutcome outcome = saver.wait();
    BOOST_TEST(!outcome.failure, (outcome.failure ? outcome.failure->message() : ""));
    return outcome;
}

void expect_loads(const comm::Group& group, const std::filesystem::path& output, int64_t step,
                  const mesh::MeshShape& shape,
                  config::NumberType moments = config::NumberType::fp32) {
    const auto settings = with_moments(moments);
    test::MadeState state(group, shape, make_units(shape.zero()), everything, settings);
    state.fill(step + 5);
    const Reader reader(output, group);
    std::vector<std::string> warnings;
    const auto found = reader.newest(1000, Verification::hashes, warnings);
    BOOST_TEST_REQUIRE(static_cast<bool>(found), (found ? "" : found.failure().message()));
    BOOST_TEST_REQUIRE(found.value().has_value());
    const Checkpoint& checkpoint = *found.value();
    BOOST_TEST(checkpoint.progress.step == step);
    BOOST_TEST(checkpoint.progress.learners.at(0).data.samples_done == 2);
    BOOST_TEST(!check_fit(checkpoint, state.zero.units()));
    BOOST_TEST(!check_states(checkpoint, state.zero.units(), optim::UpdateGroups(settings)));
    BOOST_TEST(!reader.load(checkpoint, state.zero, *state.optimizer));
    BOOST_TEST(state.count_wrong(step) == 0);
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(any_number_of_ranks_reads_what_any_other_wrote, SharedFolder) {
    std::vector<int> numbers{1, 2, 3, 4, 6, 8};
    std::erase_if(numbers, [](int ranks) { return ranks > test::world().size(); });
    int64_t step = 0;
    for (const int writers : numbers) {
        ++step;
        const auto output = path / format_text("by-{}", writers);
        on_ranks(writers, [&](const comm::Group& group) {
            save(group, output, step, {.shard = writers}, {}, faults);
        });
        for (const int readers : numbers)
            on_ranks(readers, [&](const comm::Group& group) {
                expect_loads(group, output, step, {.shard = readers});
            });
        if (writers % 2 == 0)  // copies of the model, and sequences that are cut
            on_ranks(writers, [&](const comm::Group& group) {
                expect_loads(group, output, step, {.replicate = writers / 2, .ulysses = 2});
                save(group, output, step + 1, {.replicate = 2, .ring = writers / 2}, {}, faults);
                expect_loads(group, output, step + 1, {.shard = writers});
            });
    }
}

BOOST_FIXTURE_TEST_CASE(every_way_of_writing_makes_the_same_datasets, SharedFolder) {
    const int ranks = test::world().size();
    const SaveOptions direct;
    const SaveOptions mpio{.through_mpio = true, .hints = {"cb_buffer_size=65536"}};
    const SaveOptions nodes{.one_file_per_node = true, .ranks_per_node = 2};
    const SaveOptions nodes_mpio{
        .one_file_per_node = true, .through_mpio = true, .ranks_per_node = 3};
    const SaveOptions all[] = {direct, mpio, nodes, nodes_mpio};
    std::map<std::string, std::string> hashes[4];
    for (size_t way = 0; way < 4; ++way) {
        const auto output = path / format_text("way-{}", way);
        for (const auto moments : {config::NumberType::fp32, config::NumberType::bf16}) {
            const int64_t step = moments == config::NumberType::fp32 ? 4 : 6;
            const auto outcome =
                save(test::world(), output, step, {.shard = ranks}, all[way], faults, moments);
            BOOST_TEST(outcome.bytes > 0);
            expect_loads(test::world(), output, step, {.shard = ranks}, moments);
            // Moments of the other type come back exactly, as these values have few digits.
            expect_loads(test::world(), output, step, {.replicate = ranks},
                         config::NumberType::fp32);
            const auto found = survey(output / checkpoint_name(step));
            BOOST_TEST_REQUIRE(static_cast<bool>(found), (found ? "" : found.failure().message));
            for (const WrittenRange& range : found.value().manifest.ranges)
                hashes[way][concat(step, range.dataset, range.first)] = range.hash;
            const bool is_split = found.value().manifest.file_sizes.size() > 2;
            BOOST_TEST(is_split == all[way].one_file_per_node);
        }
        BOOST_TEST(hashes[way] == hashes[0]);
    }
}

BOOST_FIXTURE_TEST_CASE(states_of_another_optimizer_are_refused, SharedFolder) {
    save(test::world(), path, 4, {.shard = test::world().size()}, {}, faults);
    const auto saved = check_checkpoint(path / checkpoint_name(4), Contents::everything,
                                        Verification::hashes, test::world());
    BOOST_TEST_REQUIRE(static_cast<bool>(saved));
    for (const auto optimizer :
         {config::Optimizer::lion, config::Optimizer::adamw_8bit, config::Optimizer::muon}) {
        config::TrainingSettings settings;
        settings.optim = optimizer;
        const auto failure =
            check_states(saved.value(), make_units(1), optim::UpdateGroups(settings));
        BOOST_TEST_REQUIRE(failure.has_value());
        BOOST_TEST(failure->message.find("it has the states of another optimizer; give optim and "
                                         "lr_groups as they were") != std::string::npos,
                   failure->message);
    }
}

BOOST_FIXTURE_TEST_CASE(weights_alone_are_stepped_over_and_named, SharedFolder) {
    const mesh::MeshShape shape{.shard = test::world().size()};
    const auto fp32 = config::NumberType::fp32;
    save(test::world(), path, 4, shape, {}, faults, fp32, Contents::everything);
    const auto light = save(test::world(), path, 8, shape, {}, faults, fp32, Contents::weights);
    BOOST_TEST(light.bytes > 0);
    expect_loads(test::world(), path, 4, shape);
    const auto named = check_checkpoint(path / checkpoint_name(8), Contents::everything,
                                        Verification::hashes, test::world());
    BOOST_TEST_REQUIRE(static_cast<bool>(named));
    const auto failure =
        check_states(named.value(), make_units(1), optim::UpdateGroups(config::TrainingSettings{}));
    BOOST_TEST_REQUIRE(failure.has_value());
    BOOST_TEST(failure->message.find("save_only_model") != std::string::npos);
    BOOST_TEST(!check_fit(named.value(), make_units(1)));
}

namespace {

std::string read_part(const std::filesystem::path& file, int64_t offset, int64_t bytes) {
    const std::string content = read_file(file).value_or("");
    BOOST_TEST_REQUIRE(static_cast<int64_t>(content.size()) >= offset + bytes);
    return content.substr(static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

// The upper halves of fp32 numbers that are exact in bf16.
std::string upper_halves(const std::string& numbers) {
    std::string halves;
    for (size_t i = 0; i < numbers.size(); i += 4) halves += numbers.substr(i + 2, 2);
    return halves;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(the_weights_lie_beside_the_state_once_more, SharedFolder) {
    const mesh::MeshShape shape{.shard = test::world().size()};
    const std::vector<ModelFile> model{
        {"model-1.safetensors", "HEAD", {{"/model/embed", 4}}, ElementType::fp32},
        {"model-2.safetensors", "H", {{"/model/cube", 1}, {"/model/norm", 121}}, ElementType::bf16},
        {"model.safetensors.index.json", "{}", {}, ElementType::fp32}};
    const SaveOptions mpio{.through_mpio = true};
    int64_t step = 4;
    for (const SaveOptions& options : {SaveOptions{}, mpio}) {
        const auto folder = path / checkpoint_name(++step);
        save(test::world(), path, step, shape, options, faults, config::NumberType::fp32,
             Contents::everything, model);
        const auto found = survey(folder);
        BOOST_TEST_REQUIRE(static_cast<bool>(found));
        for (const auto& [name, size] : found.value().manifest.file_sizes)
            BOOST_TEST(name.find("safetensors") == std::string::npos);
        const auto stored = [&](const std::string& dataset) {
            const StateFile::Placed& placed = found.value().state.datasets.at(dataset);
            return read_part(folder / state_name, placed.offset, *bytes_of(placed));
        };
        const std::string embed = stored("/model/embed");
        BOOST_TEST(embed != std::string(embed.size(), '\0'));
        BOOST_TEST((read_file(folder / "model-1.safetensors") == "HEAD" + embed));
        BOOST_TEST(
            (read_file(folder / "model-2.safetensors") ==
             "H" + upper_halves(stored("/model/cube")) + upper_halves(stored("/model/norm"))));
        BOOST_TEST((read_file(folder / "model.safetensors.index.json") == "{}"));
        test::world().barrier();
        if (test::world().is_root()) std::filesystem::remove(folder / "model-1.safetensors");
        test::world().barrier();
        expect_loads(test::world(), path, step, shape);
    }
}
