// libFuzzer: the manifest.json of a checkpoint whose state.h5 is whole, and its checkpoint.json.
#include "checkpoint_fuzz.hpp"

int try_reader(const uint8_t* data, size_t size) {
    using namespace ringshard;
    static const test::FuzzFolder folder;
    static const checkpoint::Manifest whole = test::make_checkpoint(folder);
    folder.write("checkpoint-1/manifest.json", test::text_of(data, size));
    const auto read = checkpoint::read_manifest(folder.path() / "checkpoint-1");
    if (read && checkpoint::ranges_from_text(to_text(read.value().ranges)).size() !=
                    read.value().ranges.size())
        __builtin_trap();
    (void)checkpoint::survey(folder.path() / "checkpoint-1");
    folder.write("checkpoint-1/checkpoint.json", test::text_of(data, size));
    (void)checkpoint::read_info(folder.path() / "checkpoint-1");
    std::filesystem::remove(folder.path() / "checkpoint-1" / "checkpoint.json");
    return 0;
}
