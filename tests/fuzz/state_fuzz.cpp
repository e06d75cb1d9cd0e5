// libFuzzer: changes of the bytes of a state.h5, each six bytes: where (four) and what (two).
// Without hashes, as --verify_checkpoint sizes reads it. HDF5's library crashes over some of them
// by itself: scripts/fuzz tells its frames from ours.
#include "checkpoint_fuzz.hpp"

int try_reader(const uint8_t* data, size_t size) {
    using namespace ringshard;
    static const test::FuzzFolder folder;
    static const checkpoint::Manifest manifest = test::make_checkpoint(folder);
    static const std::string whole =
        *read_file(folder.path() / "checkpoint-1" / checkpoint::state_name);
    std::string changed = whole;
    for (; size >= 6; data += 6, size -= 6) {
        uint32_t place = 0;
        std::memcpy(&place, data, sizeof(place));
        std::memcpy(changed.data() + place % (changed.size() - 1), data + sizeof(place), 2);
    }
    const auto state = checkpoint::open_state_file(folder.write("changed.h5", changed));
    if (!state) return 0;
    for (const auto& [name, placed] : state.value().datasets) (void)bytes_of(placed);
    return 0;
}
