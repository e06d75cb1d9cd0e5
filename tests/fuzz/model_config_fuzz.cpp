// libFuzzer: a config.json. A model that is accepted has sizes that fit, and units whose numbers
// can be counted.
#include "fuzz_folder.hpp"
#include "ringshard/model/operations.hpp"

int try_reader(const uint8_t* data, size_t size) {
    using namespace ringshard;
    static const test::FuzzFolder folder;
    auto spec = model::read_model_spec(folder.write("config.json", test::text_of(data, size)));
    if (!spec) return 0;
    spec.value().blocks.resize(std::min<size_t>(spec.value().blocks.size(), 3));
    for (const shard::FlatUnit& unit : model::make_units(spec.value(), 3))
        if (unit.size() <= 0 || unit.size() % 3 != 0) __builtin_trap();
    const std::vector<int64_t> lengths{10, 5};
    (void)model::operations_of(spec.value()).of_training(lengths);
    return 0;
}
