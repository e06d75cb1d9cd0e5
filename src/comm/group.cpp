#include "ringshard/comm/group.hpp"

#include <algorithm>
#include <array>
#include <exception>

#include "mpi_call.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::comm {

void Group::Free::operator()(MPI_Comm* communicator) const {
    int finalized = 0;
    MPI_Finalized(&finalized);
    // MPI_Comm_free is collective: while an exception unwinds, the peers do not call it.
    if (finalized == 0 && std::uncaught_exceptions() <= exceptions_at_construction)
        MPI_Comm_free(communicator);
    delete communicator;
}

namespace {

MPI_Comm duplicate(MPI_Comm communicator) {
    MPI_Comm copy = MPI_COMM_NULL;
    RINGSHARD_MPI(MPI_Comm_dup(communicator, &copy));
    return copy;
}

// Returns the world rank of the communicator's first rank.
int leader_of(MPI_Comm communicator) {
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    RINGSHARD_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
    RINGSHARD_MPI(MPI_Comm_group(communicator, &group));
    const int first = 0;
    int leader = 0;
    RINGSHARD_MPI(MPI_Group_translate_ranks(group, 1, &first, world, &leader));
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    return leader;
}

}  // namespace

Group::Group(Adopt, MPI_Comm communicator, FlightRecorder& flight_recorder, std::string name)
    : communicator_(new MPI_Comm(communicator), Free{std::uncaught_exceptions()}),
      log_(flight_recorder.open_log(std::move(name), leader_of(communicator))) {
    RINGSHARD_MPI(MPI_Comm_rank(handle(), &rank_));
    RINGSHARD_MPI(MPI_Comm_size(handle(), &size_));
}

Group::Group(MPI_Comm communicator, std::string name)
    : Group(Adopt{}, duplicate(communicator), *std::make_shared<FlightRecorder>(),
            std::move(name)) {}

Group::~Group() = default;

Group Group::split(int64_t color, std::string name) const {
    const GroupLog::Operation noted(*log_, "split", 0);
    MPI_Comm part = MPI_COMM_NULL;
    RINGSHARD_MPI(MPI_Comm_split(handle(), narrow<int>(color), rank_, &part));
    return {Adopt{}, part, flight_recorder(), std::move(name)};
}

Group Group::split_by_host(std::string name) const {
    const GroupLog::Operation noted(*log_, "split", 0);
    MPI_Comm part = MPI_COMM_NULL;
    RINGSHARD_MPI(MPI_Comm_split_type(handle(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &part));
    return {Adopt{}, part, flight_recorder(), std::move(name)};
}

void Group::barrier() const {
    const GroupLog::Operation noted(*log_, "barrier", 0);
    MPI_Request request = MPI_REQUEST_NULL;
    RINGSHARD_MPI(MPI_Ibarrier(handle(), &request));
    wait_for(request);
}

int64_t Group::reduce(const char* what, int64_t value, MPI_Op operation) const {
    const GroupLog::Operation noted(*log_, what, sizeof(value));
    MPI_Request request = MPI_REQUEST_NULL;
    RINGSHARD_MPI(
        MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, operation, handle(), &request));
    wait_for(request);
    return value;
}

int64_t Group::sum(int64_t value) const { return reduce("sum", value, MPI_SUM); }
int64_t Group::minimum(int64_t value) const { return reduce("minimum", value, MPI_MIN); }
int64_t Group::maximum(int64_t value) const { return reduce("maximum", value, MPI_MAX); }

std::vector<double> Group::sum(std::vector<double> values) const {
    // One rank adds and broadcasts the sum: an all-reduce may round differently on every rank.
    const GroupLog::Operation noted(*log_, "sum", narrow<int64_t>(values.size() * sizeof(double)));
    std::vector<double> total(values.size());
    const int count = narrow<int>(values.size());
    MPI_Request request = MPI_REQUEST_NULL;
    RINGSHARD_MPI(MPI_Ireduce(values.data(), total.data(), count, MPI_DOUBLE, MPI_SUM, 0, handle(),
                              &request));
    wait_for(request);
    RINGSHARD_MPI(MPI_Ibcast(total.data(), count, MPI_DOUBLE, 0, handle(), &request));
    wait_for(request);
    return total;
}

std::vector<int64_t> Group::maximum(std::vector<int64_t> values) const {
    const GroupLog::Operation noted(*log_, "maximum",
                                    narrow<int64_t>(values.size() * sizeof(int64_t)));
    MPI_Request request = MPI_REQUEST_NULL;
    RINGSHARD_MPI(MPI_Iallreduce(MPI_IN_PLACE, values.data(), narrow<int>(values.size()),
                                 MPI_INT64_T, MPI_MAX, handle(), &request));
    wait_for(request);
    return values;
}

std::vector<int64_t> Group::gather(int64_t value) const {
    const GroupLog::Operation noted(*log_, "gather", narrow<int64_t>(sizeof(value)));
    std::vector<int64_t> values(static_cast<size_t>(size_));
    MPI_Request request = MPI_REQUEST_NULL;
    RINGSHARD_MPI(
        MPI_Iallgather(&value, 1, MPI_INT64_T, values.data(), 1, MPI_INT64_T, handle(), &request));
    wait_for(request);
    return values;
}

namespace {

// Maximum bytes per call: MPI counts in an int.
constexpr int64_t most_at_once = int64_t{1} << 30;

}  // namespace

std::string Group::broadcast(const std::string& text, int root) const {
    const GroupLog::Operation noted(*log_, "broadcast", narrow<int64_t>(text.size()));
    int64_t length = rank_ == root ? static_cast<int64_t>(text.size()) : 0;
    MPI_Request request = MPI_REQUEST_NULL;
    RINGSHARD_MPI(MPI_Ibcast(&length, 1, MPI_INT64_T, root, handle(), &request));
    wait_for(request);
    std::string received = rank_ == root ? text : std::string(static_cast<size_t>(length), '\0');
    for (int64_t begin = 0; begin < length; begin += most_at_once) {
        const int count = narrow<int>(std::min(most_at_once, length - begin));
        RINGSHARD_MPI(
            MPI_Ibcast(received.data() + begin, count, MPI_BYTE, root, handle(), &request));
        wait_for(request);
    }
    return received;
}

namespace {

// One call of a gather or scatter: of every rank's text the bytes from `begin` on, at most `share`
// of each, concatenated by rank.
struct Round {
    Round(const std::vector<int64_t>& lengths, int64_t begin, int64_t share) {
        int64_t total = 0;
        for (const int64_t length : lengths) {
            counts.push_back(narrow<int>(std::clamp<int64_t>(length - begin, 0, share)));
            offsets.push_back(narrow<int>(total));
            total += counts.back();
        }
        whole.resize(static_cast<size_t>(total));
    }
    void append_to(std::vector<std::string>& texts) const {
        for (size_t i = 0; i < texts.size(); ++i)
            texts[i].append(whole, static_cast<size_t>(offsets[i]), static_cast<size_t>(counts[i]));
    }
    void take_from(const std::vector<std::string>& texts, int64_t begin) {
        for (size_t i = 0; i < texts.size(); ++i)
            if (counts[i] > 0)
                texts[i].copy(whole.data() + offsets[i], static_cast<size_t>(counts[i]),
                              static_cast<size_t>(begin));
    }
    std::vector<int> counts;
    std::vector<int> offsets;
    std::string whole;
};

}  // namespace

std::string Group::scatter(const std::vector<std::string>& texts) const {
    RINGSHARD_CHECK(!is_root() || std::ssize(texts) == size_, "a text for each rank");
    const GroupLog::Operation noted(*log_, "scatter", 0);
    std::vector<int64_t> lengths;
    if (is_root())
        for (const std::string& text : texts) lengths.push_back(std::ssize(text));
    const int64_t longest = is_root() ? std::ranges::max(lengths) : 0;
    std::vector<std::array<int64_t, 2>> sizes;  // of a rank's text, and of the longest one
    for (const int64_t length : lengths) sizes.push_back({length, longest});
    std::array<int64_t, 2> own{};
    MPI_Request request = MPI_REQUEST_NULL;
    RINGSHARD_MPI(MPI_Iscatter(sizes.data(), 2, MPI_INT64_T, own.data(), 2, MPI_INT64_T, 0,
                               handle(), &request));
    wait_for(request);
    std::string mine;
    const int64_t share = std::max<int64_t>(1, most_at_once / size_);
    for (int64_t begin = 0; begin < own[1]; begin += share) {
        Round round(lengths, begin, share);
        if (is_root()) round.take_from(texts, begin);
        std::string part(static_cast<size_t>(std::clamp<int64_t>(own[0] - begin, 0, share)), '\0');
        RINGSHARD_MPI(MPI_Iscatterv(round.whole.data(), round.counts.data(), round.offsets.data(),
                                    MPI_BYTE, part.data(), narrow<int>(part.size()), MPI_BYTE, 0,
                                    handle(), &request));
        wait_for(request);
        mine += part;
    }
    return mine;
}

std::vector<std::string> Group::gather(const std::string& text, Receivers receivers) const {
    const std::vector<int64_t> lengths = gather(static_cast<int64_t>(text.size()));
    const GroupLog::Operation noted(*log_, "gather", narrow<int64_t>(text.size()));
    const bool receives = receivers == Receivers::all || is_root();
    std::vector<std::string> texts(receives ? lengths.size() : 0);
    const int64_t share = std::max<int64_t>(1, most_at_once / size_);
    for (int64_t begin = 0; begin < std::ranges::max(lengths); begin += share) {
        Round round(receives ? lengths : std::vector<int64_t>(), begin, share);
        const auto length = static_cast<int64_t>(text.size());
        const char* const mine = text.data() + std::min(begin, length);
        const int count = narrow<int>(std::clamp<int64_t>(length - begin, 0, share));
        char* const into = round.whole.data();
        MPI_Request request = MPI_REQUEST_NULL;
        if (receivers == Receivers::all)
            RINGSHARD_MPI(MPI_Iallgatherv(mine, count, MPI_BYTE, into, round.counts.data(),
                                          round.offsets.data(), MPI_BYTE, handle(), &request));
        else
            RINGSHARD_MPI(MPI_Igatherv(mine, count, MPI_BYTE, into, round.counts.data(),
                                       round.offsets.data(), MPI_BYTE, 0, handle(), &request));
        wait_for(request);
        round.append_to(texts);
    }
    return texts;
}

std::vector<std::string> Group::gather_to_root(const std::string& text) const {
    return gather(text, Receivers::root);
}

std::vector<std::string> Group::gather(const std::string& text) const {
    return gather(text, Receivers::all);
}

}  // namespace ringshard::comm
