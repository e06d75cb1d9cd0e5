#include <zlib.h>

#include <algorithm>

#include "protobuf.hpp"
#include "ringshard/base/text.hpp"
#include "tensorboard.hpp"
#include "tracker_text.hpp"

namespace ringshard::report {

namespace {

// The numbers of fields in W&B's messages.
namespace record {
constexpr uint32_t num = 1, history = 2, metric = 12, run = 17, exit = 18, header = 21;
}
namespace run_record {
constexpr uint32_t run_id = 1, project = 3, config = 4, display_name = 8, host = 13,
                   start_time = 17;
}

// A key of a configuration or of a history, and its value as JSON: ConfigItem, HistoryItem.
std::string item(const std::string& key, const std::string& json) {
    return bytes_field(1, bytes_field(1, key) + bytes_field(16, json));
}

// The log of LevelDB with W&B's header: records lie in blocks of 32 KiB, and one that crosses the
// end of a block is cut into fragments.
class RecordLog {
public:
    static Expected<RecordLog> create(const std::filesystem::path& file) {
        auto created = TrackerFile::create(file);
        if (!created) return created.failure();
        RecordLog log(std::move(created).value());
        if (auto failure = log.file_.append(std::string_view(":W&B\xe1\xbe\0", 7))) return *failure;
        return log;
    }

    // One write, so that a reader sees whole records.
    std::optional<Failure> append(std::string_view record) {
        std::string bytes;
        bool is_first = true;
        do {
            const int64_t used = (file_.size() + static_cast<int64_t>(bytes.size())) % block;
            if (block - used < head) {
                bytes.append(static_cast<size_t>(block - used), '\0');
                continue;
            }
            const auto room = static_cast<size_t>(block - used - head);
            const std::string_view part = record.substr(0, room);
            record.remove_prefix(part.size());
            bytes += fragment(part, is_first, record.empty());
            is_first = false;
        } while (!record.empty() || is_first);
        return file_.append(bytes);
    }

private:
    static constexpr int64_t block = 32768;
    static constexpr int64_t head = 7;  // CRC-32 of type and content, length, type

    explicit RecordLog(TrackerFile file) : file_(std::move(file)) {}

    static std::string fragment(std::string_view part, bool is_first, bool is_last) {
        const char type = is_first ? (is_last ? 1 : 2) : (is_last ? 4 : 3);
        const auto update = [](uLong crc, const char* bytes, size_t count) {
            return crc32(crc, reinterpret_cast<const Bytef*>(bytes), static_cast<uInt>(count));
        };
        const uLong crc = update(update(0, &type, 1), part.data(), part.size());
        return concat(raw(static_cast<uint32_t>(crc)), raw(static_cast<uint16_t>(part.size())),
                      type, part);
    }

    TrackerFile file_;
};

std::string timestamp(double time) {
    const auto seconds = static_cast<int64_t>(time);
    const auto nanoseconds = static_cast<int64_t>((time - static_cast<double>(seconds)) * 1e9);
    return varint_field(1, seconds) + varint_field(2, nanoseconds);
}

std::string describe(const TrackedRun& run) {
    std::string config = item("_wandb", "{}");
    for (const auto& [name, text] : run.settings) config += item(name, json_value(text));
    return bytes_field(run_record::run_id, run.id) + bytes_field(run_record::project, run.project) +
           bytes_field(run_record::config, config) +
           bytes_field(run_record::display_name, run.name) +
           bytes_field(run_record::host, run.host) +
           bytes_field(run_record::start_time, timestamp(run.began));
}

// Every metric lies over train/global_step, as transformers' callback has it.
std::string step_axis() {
    const std::string defined = varint_field(3, 1);
    const std::string step_sync = varint_field(1, 1) + defined;
    return bytes_field(2, "*") + bytes_field(4, "train/global_step") + bytes_field(6, step_sync);
}

class WandbRun : public Tracker {
public:
    WandbRun(RecordLog log, std::filesystem::path folder, double began)
        : log_(std::move(log)), folder_(std::move(folder)), began_(began) {}

    std::optional<Failure> write_head(const TrackedRun& run) {
        const std::string version = bytes_field(1, "ringshard");
        if (auto failure = append(record::header, bytes_field(1, version))) return failure;
        if (auto failure = append(record::run, describe(run))) return failure;
        const std::string step =
            bytes_field(1, "train/global_step") + bytes_field(6, varint_field(3, 1));
        if (auto failure = append(record::metric, step)) return failure;
        return append(record::metric, step_axis());
    }

    std::optional<Failure> restore(const TrackedLine& line) override { return add(line); }

    std::optional<Failure> add(const TrackedLine& line) override {
        std::string history;
        for (const auto& [key, value] : line.numbers)
            history += item(tensorboard_tag(key), json_number(value));
        history += item("train/global_step", std::to_string(line.step));
        history += item("_timestamp", json_number(line.time));
        history += item("_runtime", json_number(std::max(0.0, line.time - began_)));
        history += item("_step", std::to_string(num_lines_));
        history += bytes_field(2, varint_field(1, num_lines_));
        ++num_lines_;
        return append(record::history, history);
    }

    std::optional<Failure> end(double time) override {
        const auto runtime = static_cast<int64_t>(std::max(0.0, time - began_));
        return append(record::exit, varint_field(1, 0) + varint_field(2, runtime));
    }

    std::string command() const override { return "wandb sync " + folder_.string(); }

private:
    std::optional<Failure> append(uint32_t kind, const std::string& content) {
        return log_.append(varint_field(record::num, ++num_records_) + bytes_field(kind, content));
    }

    RecordLog log_;
    std::filesystem::path folder_;
    double began_;
    int64_t num_records_ = 0;
    int64_t num_lines_ = 0;
};

}  // namespace

Expected<std::unique_ptr<Tracker>> open_wandb(const TrackedRun& run) {
    const auto folder = run.output_dir / "wandb" /
                        format_text("offline-run-{}-{}", time_of_folder(run.began), run.id);
    auto log = RecordLog::create(folder / format_text("run-{}.wandb", run.id));
    if (!log) return log.failure();
    auto made = std::make_unique<WandbRun>(std::move(log).value(), folder, run.began);
    if (auto failure = made->write_head(run)) return *failure;
    return std::unique_ptr<Tracker>(std::move(made));
}

}  // namespace ringshard::report
