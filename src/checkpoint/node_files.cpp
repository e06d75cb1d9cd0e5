#include "node_files.hpp"

#include <fcntl.h>

#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "progress_texts.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

std::map<std::string, int64_t> numbers_of(const SaveJob& job) {
    std::map<std::string, int64_t> numbers = numbers_of(job.progress);
    numbers["attempt"] = job.claim.attempt;
    return numbers;
}

namespace {

std::map<std::string, std::string> texts_of(const SaveJob& job) {
    std::map<std::string, std::string> texts = job.extras.texts;
    texts.merge(texts_of(job.progress));
    return texts;
}

// The first of the writers creates the file and sends the layout to the others. Collective over
// `world`, which includes the writers.
comm::Agreed<FileWork> lay_out(const std::filesystem::path& file,
                               const std::vector<DatasetSpec>& datasets,
                               const std::map<std::string, std::string>& texts, const SaveJob& job,
                               const comm::Group& writers, const comm::Group& world,
                               Faults& faults) {
    FileWork work{file, {}, {}};
    std::optional<Failure> failure;
    if (writers.is_root()) {
        auto made = create_state_file(file, datasets, numbers_of(job), texts);
        if (made)
            work.layout = std::move(made).value();
        else
            failure = made.failure();
        if (const auto fault = faults.reach("save:layout", file)) failure = fault;
        // The other ranks would wait for a missing file.
        if (!failure && !file_exists(file))
            failure =
                Failure{ExitCode::io, format_text("{}: has gone since it was made", file.string())};
    }
    if (const auto agreed = comm::first_failure(world, failure)) return *agreed;
    work.layout = broadcast_layout(work.layout, writers);
    return work;
}

}  // namespace

comm::Agreed<FileWork> lay_out_one_file(const std::filesystem::path& folder, const SaveJob& job,
                                        const SaveGroups& groups, Faults& faults) {
    auto work = lay_out(folder / state_name, job.datasets, texts_of(job), job, groups.world,
                        groups.world, faults);
    if (!work) return work;
    for (const OwnPiece& piece : job.pieces) work.value().pieces.push_back({piece, piece.first});
    return work;
}

namespace {

std::string name_of_node_file(int64_t index, int64_t count) {
    std::ostringstream name;
    name << "state-" << std::setfill('0') << std::setw(5) << index + 1 << "-of-" << std::setw(5)
         << count << ".h5";
    return name.str();
}

// Pieces of tensors that a node holds: sizes by first element, by dataset.
using PiecesOfNode = std::map<std::string, std::map<int64_t, int64_t>>;

// Collective over the node.
PiecesOfNode gather_pieces(const SaveJob& job, const comm::Group& node) {
    json mine = json::array();
    for (const OwnPiece& piece : job.pieces)
        mine.push_back({piece.dataset, piece.first, piece.count});
    PiecesOfNode pieces;
    for (const std::string& text : node.gather(mine.dump())) {
        const json of_rank = parse_json<json>(text).value();
        for (const json& piece : of_rank) pieces[piece[0]][piece[1]] = piece[2].get<int64_t>();
    }
    return pieces;
}

std::vector<DatasetSpec> datasets_of(const PiecesOfNode& pieces,
                                     const std::vector<DatasetSpec>& wholes) {
    std::vector<DatasetSpec> datasets;
    for (const DatasetSpec& whole : wholes) {
        const auto found = pieces.find(whole.name);
        if (found == pieces.end()) continue;
        int64_t elements = 0;
        for (const auto& [first, count] : found->second) elements += count;
        datasets.push_back({whole.name, {elements}, whole.type});
    }
    return datasets;
}

}  // namespace

comm::Agreed<FileWork> lay_out_file_of_node(const std::filesystem::path& folder, const SaveJob& job,
                                            const SaveGroups& groups, Faults& faults) {
    const PiecesOfNode pieces = gather_pieces(job, groups.node);
    auto work =
        lay_out(folder / name_of_node_file(groups.node_index, groups.num_nodes),
                datasets_of(pieces, job.datasets), {}, job, groups.node, groups.world, faults);
    if (!work) return work;
    for (const OwnPiece& piece : job.pieces) {
        int64_t first_there = 0;
        for (const auto& [first, count] : pieces.at(piece.dataset))
            first_there += first < piece.first ? count : 0;
        work.value().pieces.push_back({piece, first_there});
    }
    return work;
}

std::optional<Failure> write_master(const std::filesystem::path& folder, const SaveJob& job,
                                    const std::vector<WrittenRange>& ranges) {
    const auto file = folder / state_name;
    std::map<std::string, int64_t> element_bytes;
    for (const DatasetSpec& dataset : job.datasets)
        element_bytes[dataset.name] = bytes_of(dataset.type);
    // By dataset, the ranges by their first element.
    std::map<std::string, std::map<int64_t, const WrittenRange*>> by_first;
    for (const WrittenRange& range : ranges) by_first[range.dataset][range.first] = &range;
    std::map<std::string, std::vector<PartElsewhere>> parts;
    for (const auto& [dataset, sorted] : by_first) {
        std::map<std::string, int64_t> sizes;  // by file
        for (const auto& [first, range] : sorted) {
            const int64_t count = range->length / element_bytes.at(dataset);
            int64_t& size = sizes[range->file];
            parts[dataset].push_back({first, count, range->file, size, 0});
            size += count;
        }
        for (PartElsewhere& part : parts[dataset]) part.size_there = sizes[part.file];
    }
    if (auto failure =
            create_master_file(file, job.datasets, parts, numbers_of(job), texts_of(job)))
        return failure;
    auto opened = File::open(file, O_WRONLY);
    if (!opened) return opened.failure();
    return opened.value().flush();
}

}  // namespace ringshard::checkpoint
