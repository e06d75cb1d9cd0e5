#include "tensorboard.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <iomanip>

#include "protobuf.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/report/tracker.hpp"

namespace ringshard::report {

namespace {

// --- CRC32C (Castagnoli), reflected and masked as in TFRecord files

constexpr std::array<uint32_t, 256> make_crc_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
        table[byte] = crc;
    }
    return table;
}

uint32_t masked_crc(std::string_view bytes) {
    static constexpr std::array<uint32_t, 256> table = make_crc_table();
    uint32_t crc = 0xffffffffU;
    for (const char byte : bytes)
        crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xffU] ^ (crc >> 8U);
    crc = ~crc;
    return std::rotr(crc, 15) + 0xa282ead8U;  // masked, since a CRC over data with CRCs is weak
}

// The fields of Event in use: wall_time = 1 (double), step = 2 (varint), file_version = 3 (text),
// summary = 5, session_log = 7. Summary: value = 1, repeated. Value: tag = 1 (text), simple_value =
// 2 (float). SessionLog: status = 1 (varint), where 1 is START.
std::string event(double wall_time, int64_t step, const std::string& content) {
    return double_field(1, wall_time) + (step == 0 ? "" : varint_field(2, step)) + content;
}

}  // namespace

std::string tensorboard_tag(std::string_view key) {
    for (const std::string_view part : {"eval", "test"})
        if (key.starts_with(part) && key.substr(part.size()).starts_with('_'))
            return format_text("{}/{}", part, key.substr(part.size() + 1));
    return format_text("train/{}", key);
}

Expected<TensorBoardFile> TensorBoardFile::create(const std::filesystem::path& folder,
                                                  const std::string& host, double wall_time,
                                                  int64_t first_step) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        return Failure{ExitCode::io,
                       format_text("{} cannot be made: {}", folder.string(), error.message())};
    const auto path = folder / concat("events.out.tfevents.", std::setfill('0'), std::setw(10),
                                      static_cast<int64_t>(wall_time), ".", host, ".", getpid());
    auto opened = File::open(path, O_WRONLY | O_CREAT | O_TRUNC);
    if (!opened) return opened.failure();
    TensorBoardFile made(path, std::move(opened).value());
    const std::string version = bytes_field(3, "brain.Event:2");
    const std::string start = bytes_field(7, varint_field(1, 1));
    if (auto failure = made.append(event(wall_time, 0, version))) return *failure;
    if (auto failure = made.append(event(wall_time, first_step, start))) return *failure;
    return made;
}

std::optional<Failure> TensorBoardFile::add(int64_t step, double wall_time,
                                            std::span<const Scalar> scalars) {
    std::string summary;
    for (const auto& [tag, value] : scalars)
        summary += bytes_field(1, bytes_field(1, tag) + float_field(2, static_cast<float>(value)));
    return append(event(wall_time, step, bytes_field(5, summary)));
}

std::optional<Failure> TensorBoardFile::flush() { return file_.flush(); }

// A record: length, its CRC, the event, its CRC. One write, so that readers see whole records.
std::optional<Failure> TensorBoardFile::append(std::string_view event) {
    const std::string length = raw(uint64_t{event.size()});
    const std::string record =
        concat(length, raw(masked_crc(length)), event, raw(masked_crc(event)));
    if (auto failure = file_.write_at(std::as_bytes(std::span(record)), end_)) return failure;
    end_ += static_cast<int64_t>(record.size());
    return std::nullopt;
}

namespace {

// Keeps the files of earlier attempts: TensorBoard hides the steps that this one repeats.
class TensorBoard : public Tracker {
public:
    explicit TensorBoard(TensorBoardFile file) : file_(std::move(file)) {}

    std::optional<Failure> restore(const TrackedLine&) override { return std::nullopt; }
    std::optional<Failure> add(const TrackedLine& line) override {
        std::vector<Scalar> scalars;
        for (const auto& [key, value] : line.numbers)
            scalars.push_back({tensorboard_tag(key), value});
        return file_.add(line.step, line.time, scalars);
    }
    std::optional<Failure> end(double) override { return std::nullopt; }
    std::string command() const override { return {}; }

private:
    TensorBoardFile file_;
};

}  // namespace

Expected<std::unique_ptr<Tracker>> open_tensorboard(const TrackedRun& run) {
    auto file =
        TensorBoardFile::create(run.tensorboard_dir, run.host, run.attempt_began, run.first_step);
    if (!file) return file.failure();
    return std::unique_ptr<Tracker>(std::make_unique<TensorBoard>(std::move(file).value()));
}

}  // namespace ringshard::report
