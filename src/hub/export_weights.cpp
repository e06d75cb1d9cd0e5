#include "ringshard/hub/export_weights.hpp"

#include <ATen/ops/empty.h>
#include <fcntl.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "pass_through.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/finite.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/shared_file.hpp"
#include "stored_type.hpp"

namespace ringshard::hub {

namespace fs = std::filesystem;
using shard::FrozenSource;
using shard::ReadWeight;
using shard::TensorSums;

namespace {

constexpr int64_t piece_elements = int64_t{1} << 22;  // converted at a time

std::string export_name(StoredType type) {
    return type == StoredType::fp32 ? "float32" : "bfloat16";
}

}  // namespace

Expected<std::string> config_with_type(const std::string& config_json, StoredType type) {
    nlohmann::ordered_json config = json_or_null<nlohmann::ordered_json>(config_json);
    if (!config.is_object())
        return Failure{ExitCode::bad_data, "the model's config.json is not readable JSON"};
    config["dtype"] = export_name(type);
    if (config.contains("torch_dtype")) config["torch_dtype"] = export_name(type);
    if (auto text = config.find("text_config"); text != config.end() && text->is_object())
        for (const char* name : {"dtype", "torch_dtype"})
            if (text->contains(name)) (*text)[name] = export_name(type);
    return config.dump(2) + "\n";
}

namespace {

// Returns true for model.safetensors, model-00001-of-00002.safetensors, and those of an adapter.
bool is_weight_file(std::string_view name) {
    constexpr std::string_view adapter = "adapter_";
    constexpr std::string_view begin = "model";
    constexpr std::string_view end = ".safetensors";
    if (name.starts_with(adapter)) name.remove_prefix(adapter.size());
    if (!name.starts_with(begin) || !name.ends_with(end)) return false;
    std::string part(name.substr(begin.size(), name.size() - begin.size() - end.size()));
    std::ranges::replace_if(
        part, [](char c) { return c >= '0' && c <= '9'; }, '0');
    return part.empty() || part == "-00000-of-00000";
}

// The files of a model under temporary names, which no loader accepts as a model.
class Work {
public:
    // small_files: content by name, on the rank that begins and finishes.
    Work(fs::path folder, const WeightFiles& planned,
         std::map<std::string, std::string> small_files, std::string mark,
         const MayWrite& may_write)
        : folder_(std::move(folder)),
          planned_(planned),
          small_files_(std::move(small_files)),
          mark_(std::move(mark)),
          may_write_(may_write) {
        if (!planned.index.empty()) small_files_[index_name] = planned.index;
    }

    fs::path path(const std::string& name) const { return folder_ / (name + mark_); }
    PathOf path_of() const {
        return [this](const std::string& name) { return path(name); };
    }

    // One rank: folder, small files, and the head of every file of weights.
    std::optional<Failure> begin() const {
        if (auto failure = may_write_()) return failure;
        std::error_code error;
        fs::create_directories(folder_, error);
        if (error)
            return Failure{ExitCode::io,
                           format_text("{} cannot be made: {}", folder_.string(), error.message())};
        remove_unfinished(folder_, [&](const std::string& name) {
            return is_weight_file(name) || name == index_name || small_files_.contains(name);
        });
        for (const auto& [name, content] : small_files_) {
            fs::create_directories(path(name).parent_path(), error);  // some have a folder
            if (auto failure = create(path(name), content, Flush::now)) return failure;
        }
        for (const WeightFile& file : planned_.files)
            if (auto failure = create(path(file.name), file.header, Flush::later)) return failure;
        return std::nullopt;
    }

    // Writes the ranges of this rank. Adds the ranges that it reads again to `sums`. The rank that
    // has written the headers flushes all files.
    std::optional<Failure> write(const shard::Zero& zero, const ExportForm& form,
                                 const FrozenSource* frozen, TensorSums& sums, ByteCounter& written,
                                 bool has_written_heads) const {
        const Source shards{nullptr, sums};
        const Source read_again{frozen == nullptr ? nullptr : &frozen->read, sums};
        for (const WeightFile& file : planned_.files) {
            std::optional<File> output;
            if (has_written_heads)
                if (auto failure = open(file, output)) return failure;
            for (const shard::Zero::Weights& weights : zero.trained_weights())
                if (auto failure = write_slots(zero, weights, shards, file, form, output, written))
                    return failure;
            for (const shard::Zero::Weights& weights : zero.frozen_weights())
                if (auto failure =
                        write_slots(zero, weights, read_again, file, form, output, written))
                    return failure;
            if (output)
                if (auto failure = output->flush()) return failure;
        }
        return std::nullopt;
    }

    // Gives all files their final names, on one rank, when all of them are on disk. It removes the
    // old weights first, so that no reader takes old and new files for one model.
    std::optional<Failure> finish() const {
        if (auto failure = may_write_()) return failure;
        bool has_removed = false;
        for (const auto* name : {"model.safetensors", index_name, adapter_weights_name}) {
            if (!is_replaced(name)) continue;
            if (std::remove((folder_ / name).c_str()) == 0)
                has_removed = true;
            else if (errno != ENOENT)
                return io_failure(folder_ / name, "cannot be removed");
        }
        if (has_removed)
            if (auto failure = flush_folder(folder_)) return failure;
        std::vector<std::string> small;
        for (const auto& [name, content] : small_files_)
            if (name != index_name) small.push_back(name);
        if (auto failure = commit(small)) return failure;
        std::vector<std::string> weights;
        for (const WeightFile& file : planned_.files) weights.push_back(file.name);
        if (auto failure = commit(weights)) return failure;
        remove_older();
        return planned_.index.empty() ? std::nullopt : commit({index_name});
    }

    void abandon() const {
        std::error_code ignored;
        for (const auto& [name, content] : small_files_) fs::remove(path(name), ignored);
        for (const WeightFile& file : planned_.files) fs::remove(path(file.name), ignored);
    }

private:
    // An adapter takes the place of an adapter, a model that of a model.
    bool is_replaced(const std::string& weight_file) const {
        const auto is_adapter = [](const std::string& name) {
            return name.starts_with("adapter_");
        };
        return is_adapter(weight_file) == is_adapter(planned_.files.front().name);
    }

    // Where elements come from: read again, and added up, or from the shards.
    struct Source {
        const ReadWeight* read;
        TensorSums& sums;
    };

    enum class Flush { now, later };
    static std::optional<Failure> create(const fs::path& file, std::string_view content,
                                         Flush flush) {
        auto opened = File::open(file, O_WRONLY | O_CREAT | O_TRUNC);
        if (!opened) return opened.failure();
        if (auto failure = opened.value().write_at(std::as_bytes(std::span(content)), 0))
            return failure;
        return flush == Flush::now ? opened.value().flush() : std::nullopt;
    }

    // Gives files their names, and returns when these are on disk.
    std::optional<Failure> commit(const std::vector<std::string>& names) const {
        for (const std::string& name : names)
            if (std::rename(path(name).c_str(), (folder_ / name).c_str()) != 0)
                return io_failure(folder_ / name, "cannot be replaced");
        for (const std::string& name : names)
            if (const fs::path parent = (folder_ / name).parent_path(); parent != folder_)
                if (auto failure = flush_folder(parent)) return failure;
        return names.empty() ? std::nullopt : flush_folder(folder_);
    }

    std::optional<Failure> open(const WeightFile& file, std::optional<File>& output) const {
        auto opened = open_when_visible(path(file.name), O_WRONLY);
        if (!opened) return opened.failure();
        output = std::move(opened).value();
        return std::nullopt;
    }

    // Opens the output if something of this rank belongs into the file.
    std::optional<Failure> write_slots(const shard::Zero& zero, const shard::Zero::Weights& from,
                                       const Source& source, const WeightFile& file,
                                       const ExportForm& form, std::optional<File>& output,
                                       ByteCounter& written) const {
        for (size_t chunk = 0; chunk < from.chunks.size(); ++chunk) {
            const auto& [unit, range] = from.chunks[chunk];
            const shard::Range mine = intersect(zero.exclusive_range(unit), range);
            std::optional<at::Tensor> weights;  // of the chunk
            for (const shard::TensorPiece& piece : zero.units()[unit].pieces(mine)) {
                const auto place = file.offsets.find(piece.tensor->spec.name);
                if (place == file.offsets.end()) continue;
                if (!output)
                    if (auto failure = open(file, output)) return failure;
                if (source.read == nullptr && !weights)
                    weights = from.shards.load(chunk, shard::Access::read)
                                  .narrow(0, mine.begin - range.begin, mine.size());
                if (auto failure = write_piece(weights, piece, source, form,
                                               {form.type_of(zero.units()[unit]), place->second},
                                               *output, written))
                    return failure;
            }
        }
        return std::nullopt;
    }

    struct Place {
        StoredType type;
        int64_t offset;  // of the tensor in the file
    };
    // `own`: all that is this rank's of the chunk; nothing where it is read again.
    static std::optional<Failure> write_piece(const std::optional<at::Tensor>& own,
                                              const shard::TensorPiece& piece, const Source& source,
                                              const ExportForm& form, const Place& place,
                                              File& output, ByteCounter& written) {
        const std::string& name = piece.tensor->spec.name;
        const auto element_bytes = static_cast<int64_t>(bytes_per_element(place.type));
        const auto write = [&](int64_t first, std::span<const float> numbers) {
            written.add(std::ssize(numbers) * element_bytes);
            return output.write_at(from_fp32(place.type, numbers),
                                   place.offset + first * element_bytes);
        };
        for (int64_t done = 0; done < piece.size; done += piece_elements) {
            const int64_t count = std::min(piece_elements, piece.size - done);
            const at::Tensor weights =
                own ? own->narrow(0, piece.in_range + done, count).cpu().to(at::kFloat)
                    : at::empty({count}, at::TensorOptions(at::kFloat));
            const std::span<float> numbers(static_cast<float*>(weights.data_ptr()),
                                           static_cast<size_t>(count));
            if (!own) {
                if (auto failure = (*source.read)(name, piece.first + done, numbers))
                    return failure;
                source.sums.add(name, piece.first + done, numbers);
            }
            if (!all_finite(numbers))
                return Failure{
                    ExitCode::bad_numbers,
                    format_text("{} holds NaN or infinite numbers: no model is made of them",
                                name)};
            if (auto failure = form.adapter
                                   ? form.adapter->write(name, piece.first + done, numbers, write)
                                   : write(piece.first + done, numbers))
                return failure;
        }
        return std::nullopt;
    }

    // Files of weights of an older model, which no index names any more.
    void remove_older() const {
        std::error_code ignored;
        for (const fs::path& entry : folder_entries(folder_, ignored)) {
            const std::string name = entry.filename();
            const bool is_new =
                std::ranges::find(planned_.files, name, &WeightFile::name) != planned_.files.end();
            if (!is_new && is_weight_file(name) && is_replaced(name)) fs::remove(entry, ignored);
        }
    }

    fs::path folder_;
    const WeightFiles& planned_;
    std::map<std::string, std::string> small_files_;
    std::string mark_;  // at the end of every work name
    const MayWrite& may_write_;
};

}  // namespace

StoredType type_in_config(const std::string& config_json) {
    const auto config = json_or_null<nlohmann::json>(config_json);
    for (const auto* name : {"dtype", "torch_dtype"})
        if (config.is_object() && config.contains(name) && config[name].is_string())
            return read_export_type(config[name].get<std::string>()).value_or(StoredType::fp32);
    return StoredType::fp32;
}

StoredType written_type(const std::string& dtype, const std::string& config_json) {
    if (dtype == "auto") return type_in_config(config_json);
    return dtype == "bfloat16" ? StoredType::bf16 : StoredType::fp32;
}

std::optional<StoredType> read_export_type(std::string_view name) {
    if (name == "float32") return StoredType::fp32;
    if (name == "bfloat16") return StoredType::bf16;
    return std::nullopt;
}

std::optional<comm::AgreedFailure> export_weights(const shard::Zero& zero, const fs::path& folder,
                                                  std::map<std::string, std::string> files,
                                                  const ExportForm& form, const comm::Group& world,
                                                  const MayWrite& may_write,
                                                  const FrozenSource* frozen) {
    RINGSHARD_CHECK(form.type != StoredType::fp16, "models are written as float32 or bfloat16");
    std::optional<Failure> failure;
    if (const auto config = files.find("config.json"); config != files.end()) {
        auto typed = config_with_type(config->second, form.type);
        if (typed)
            config->second = std::move(typed).value();
        else
            failure = typed.failure();
    }
    if (const auto agreed = comm::first_failure(world, failure)) return agreed;

    const WeightFiles planned = plan_weight_files(zero.units(), form);
    const Work work(folder, planned, std::move(files), world.broadcast(work_mark()), may_write);
    const auto agree = [&](const std::optional<Failure>& mine) {
        auto failed = comm::first_failure(world, mine);
        if (failed && world.is_root()) work.abandon();
        return failed;
    };
    if (world.is_root()) failure = work.begin();
    if (const auto agreed = agree(failure)) return agreed;

    std::set<std::string> read_again;
    if (frozen != nullptr)
        for (const auto& [name, hash] : frozen->hashes) read_again.insert(name);
    TensorSums sums(read_again);
    if (const auto agreed = agree(
            work.write(zero, form, frozen, sums, world.flight_recorder().bytes(), world.is_root())))
        return agreed;
    if (form.wrapped != nullptr && !form.adapter)
        if (const auto agreed = agree(pass_through(planned, *form.wrapped, work.path_of(), world)))
            return agreed;
    failure.reset();
    if (frozen != nullptr)
        if (const auto changed = shard::first_changed(frozen->hashes, sums.over(world)))
            failure = Failure{
                ExitCode::bad_data,
                format_text("{} is frozen, and the files of the pretrained model hold another "
                            "value of it than when this run began; no model is made of it",
                            *changed)};
    if (const auto agreed = agree(failure)) return agreed;

    if (world.is_root()) failure = work.finish();
    return agree(failure);
}

}  // namespace ringshard::hub
