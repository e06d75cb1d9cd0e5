#include "heartbeat.hpp"

#include <array>
#include <charconv>

#include "ringshard/base/text.hpp"

namespace ringshard::watch {

std::vector<comm::GroupLogState> groups_for_heartbeat(const comm::FlightRecorder& flight_recorder) {
    const double now = flight_recorder.now();
    std::vector<comm::GroupLogState> groups;
    for (comm::GroupLogState& group : flight_recorder.groups()) {
        if (group.begun == 0) continue;
        std::erase_if(group.last, [&](const auto& entry) { return entry.number != group.awaited; });
        for (comm::OperationRecord& entry : group.last) entry.began = now - entry.began;
        groups.push_back(std::move(group));
    }
    return groups;
}

std::string to_text(const Heartbeat& heartbeat) {
    std::string text =
        format_text("{}\t{}\t{}\t{}\t{}\t{}\t{}", heartbeat.rank, heartbeat.step, heartbeat.idle,
                    heartbeat.limit, heartbeat.is_last, heartbeat.seconds, heartbeat.doing);
    for (const comm::GroupLogState& group : heartbeat.groups) {
        text += format_text("\n{}\t{}\t{}\t{}\t{}\t{}\t{}", group.name, group.leader, group.copy,
                            group.begun, group.ended, group.awaited, group.is_main_waiting);
        for (const comm::OperationRecord& entry : group.last)
            text += format_text("\t{}\t{}\t{}", entry.what, entry.bytes, entry.began);
    }
    return text;
}

namespace {

// Reads numbers one by one and records whether all were well-formed.
class Numbers {
public:
    template <class Number>
    Number read(const std::string& text) {
        Number value{};
        const char* const end = text.data() + text.size();
        const auto [stopped, error] = std::from_chars(text.data(), end, value);
        all_good_ = all_good_ && error == std::errc() && stopped == end;
        return value;
    }
    bool all_good() const { return all_good_; }

private:
    bool all_good_ = true;
};

// Returns a name with static lifetime, as OperationRecord needs it.
const char* operation_of(const std::string& name) {
    for (const auto* known :
         {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "shift", "broadcast",
          "barrier", "sum", "minimum", "maximum", "gather", "scatter", "split"})
        if (name == known) return known;
    return "an operation";
}

}  // namespace

std::optional<Heartbeat> read_heartbeat(std::string_view text) {
    constexpr size_t head_fields = 7;
    constexpr size_t group_fields = 7;
    constexpr size_t entry_fields = 3;
    const std::vector<std::string> lines = split(text, '\n');
    const std::vector<std::string> head = split(lines.front(), '\t');
    if (head.size() != head_fields) return std::nullopt;
    Numbers numbers;
    Heartbeat heartbeat{.rank = numbers.read<int64_t>(head[0]),
                        .step = numbers.read<int64_t>(head[1]),
                        .idle = numbers.read<double>(head[2]),
                        .limit = numbers.read<double>(head[3]),
                        .is_last = numbers.read<int>(head[4]) != 0,
                        .seconds = numbers.read<double>(head[5]),
                        .doing = head[6]};
    for (size_t i = 1; i < lines.size(); ++i) {
        const std::vector<std::string> fields = split(lines[i], '\t');
        if (fields.size() != group_fields && fields.size() != group_fields + entry_fields)
            return std::nullopt;
        comm::GroupLogState group{.name = fields[0],
                                  .leader = numbers.read<int64_t>(fields[1]),
                                  .copy = numbers.read<int64_t>(fields[2]),
                                  .begun = numbers.read<int64_t>(fields[3]),
                                  .ended = numbers.read<int64_t>(fields[4]),
                                  .awaited = numbers.read<int64_t>(fields[5]),
                                  .is_main_waiting = numbers.read<int>(fields[6]) != 0};
        if (fields.size() > group_fields)
            group.last.push_back({.number = group.awaited,
                                  .what = operation_of(fields[7]),
                                  .bytes = numbers.read<int64_t>(fields[8]),
                                  .began = numbers.read<double>(fields[9])});
        heartbeat.groups.push_back(std::move(group));
    }
    return numbers.all_good() ? std::optional(std::move(heartbeat)) : std::nullopt;
}

}  // namespace ringshard::watch
