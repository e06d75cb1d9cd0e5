#include "ringshard/run/references.hpp"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <system_error>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/train/scorer.hpp"

namespace ringshard::run {

namespace {

namespace fs = std::filesystem;
using MaybeFailure = std::optional<comm::AgreedFailure>;
using Likely = std::vector<data::LikelyOfPlaces>;

constexpr int64_t longest_row = 256;  // tokens
constexpr size_t rows_of_mistakes = 4;

// The rows as the scorer takes them. Each ends with one token more, since a token has a
// distribution where another follows.
data::Rows make_rows(const std::vector<data::ReferenceRow>& rows) {
    data::SampleList samples;
    data::RowPlan plan;
    uint64_t begin = 0;
    for (const data::ReferenceRow& row : rows) {
        std::vector<int32_t> tokens = row.tokens;
        tokens.push_back(0);
        samples.add(tokens, tokens);
        plan.pieces.push_back({begin, static_cast<uint32_t>(tokens.size())});
        plan.end_row();
        begin += tokens.size();
    }
    return {data::TokenStore(std::move(samples)), std::move(plan)};
}

// Takes the places of a row out of its scores, which begin at `first`.
data::LikelyOfPlaces at_places(const data::ReferenceRow& row, const data::ScoredRows& scored,
                               size_t first, size_t count) {
    data::LikelyOfPlaces likely;
    for (const int64_t place : row.places) {
        const size_t at = (first + static_cast<size_t>(place) + 1) * count;
        data::LikelyTokens& tokens = likely.emplace_back();
        for (size_t i = at; i < at + count; ++i)
            tokens.push_back({scored.top_tokens[i], scored.top_log_probabilities[i]});
    }
    return likely;
}

// Joins what the ranks have found. On rank 0.
Likely join_ranks(const std::vector<std::string>& of_ranks, size_t num_rows) {
    Likely all(num_rows);
    for (const std::string& of_rank : of_ranks) {
        if (of_rank.empty()) continue;
        auto found = data::References::parse(of_rank, "references").value();
        for (size_t row = 0; row < num_rows; ++row)
            if (!found.rows[row].likely.empty()) all[row] = std::move(found.rows[row].likely);
    }
    return all;
}

model::ModelSpec scale_adapters(model::ModelSpec spec, double factor) {
    const auto scale = [&](std::vector<model::NamedAdapter>& adapters) {
        for (model::NamedAdapter& one : adapters)
            for (auto& [layer, adapter] : one.layers) adapter.scaling *= factor;
    };
    scale(spec.adapters);
    for (model::BlockSpec& block : spec.blocks) scale(block.adapters);
    return spec;
}

bool has_magnitudes(const model::ModelSpec& spec) {
    return spec.any_adapter([](const model::AdapterSpec& one) { return one.has_magnitude; });
}

data::References with_numbers(data::References references, Likely likely) {
    for (size_t row = 0; row < references.rows.size(); ++row)
        references.rows[row].likely = std::move(likely[row]);
    return references;
}

// Writes the file on rank 0, which has `likely`. Collective over the world.
MaybeFailure finish_references(const fs::path& folder, data::References references, Likely likely,
                               const comm::Group& world) {
    std::optional<Failure> failure;
    if (world.is_root())
        failure =
            write_file_atomically(folder / data::References::file_name,
                                  with_numbers(std::move(references), std::move(likely)).to_json());
    return comm::first_failure(world, failure);
}

// Rounds the shards of this rank to the numbers in the files.
void round_weights(shard::Zero& zero, const hub::ExportForm& form) {
    if (form.type != hub::StoredType::bf16) return;
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        if (zero.units()[unit].placement().codec == shard::Codec::fp32) continue;
        const auto [chunks, shards] = zero.weights_at_rest_of(unit);
        for (size_t chunk = chunks.first_of(unit); chunk < chunks.end_of(unit); ++chunk) {
            const at::Tensor numbers = shards.load(chunk, shard::Access::read);
            numbers.copy_(numbers.to(at::kBFloat16));
            shards.store(chunk, numbers);
        }
    }
}

}  // namespace

comm::Agreed<std::optional<Likely>> find_likely(const std::vector<data::ReferenceRow>& rows,
                                                const comm::Group& world, const mesh::Mesh& mesh,
                                                const model::Transformer& model,
                                                const std::function<void(double)>& before) {
    const int64_t count = std::min(data::References::most_likely, model.spec().vocabulary);
    const data::Rows scored_rows = make_rows(rows);
    const train::Scorer scorer(scored_rows, {std::ssize(rows), count}, world, mesh, model);
    data::References mine{.rows = rows};
    bool has_any = false;
    bool is_finite = true;
    const auto take = [&](const data::ScoredRows& scored) -> std::optional<Failure> {
        size_t first = 0;
        for (size_t i = 0; i < scored.rows.size(); ++i) {
            data::ReferenceRow& row = mine.rows[static_cast<size_t>(scored.rows[i])];
            row.likely = at_places(row, scored, first, static_cast<size_t>(count));
            first += static_cast<size_t>(scored.lengths[i]);
        }
        has_any = true;
        is_finite = is_finite && std::ranges::all_of(scored.top_log_probabilities, [](auto number) {
                        return std::isfinite(number);
                    });
        return std::nullopt;
    };
    const auto sums = scorer.score({.before_batch = before, .take = take});
    if (!sums) return sums.failure();
    if (!world.all(is_finite)) return std::optional<Likely>();
    return std::optional(
        join_ranks(world.gather_to_root(has_any ? mine.to_json() : std::string()), rows.size()));
}

comm::Agreed<data::References> read_references(const fs::path& folder, const comm::Group& world) {
    const auto text = comm::of_root(world, [&]() -> Expected<std::string> {
        const auto read = data::References::read(folder);
        if (!read) return read.failure();
        return read.value().to_json();
    });
    if (!text) return text.failure();
    return data::References::parse(text.value(), "references").value();
}

comm::Agreed<data::References> begin_references(const fs::path& folder,
                                                const model::ModelSpec& spec,
                                                const comm::Group& world) {
    const auto text = comm::of_root(world, [&]() -> Expected<std::string> {
        const int64_t longest =
            spec.max_positions > 1 ? std::min(longest_row, spec.max_positions - 1) : longest_row;
        return data::make_references(folder, spec.vocabulary, longest).to_json();
    });
    if (!text) return text.failure();
    auto references = data::References::parse(text.value(), "references").value();
    references.is_tied = spec.tied;
    return references;
}

void remove_references(const fs::path& folder) {
    std::error_code ignored;
    fs::remove(folder / data::References::file_name, ignored);
}

MaybeFailure write_references(const fs::path& folder, const model::ModelSpec& spec, Merged merged,
                              const hub::ExportForm& form, shard::Zero& zero,
                              const mesh::Mesh& mesh, const comm::Group& world) {
    if (spec.scores) return std::nullopt;
    auto begun = begin_references(folder, spec, world);
    if (!begun) return begun.failure();
    data::References& references = begun.value();
    const bool is_merged = merged == Merged::yes;
    if (!form.adapter) round_weights(zero, form);
    zero.refresh_compute_weights();
    const auto compute = [&](const model::ModelSpec& of,
                             const std::vector<data::ReferenceRow>& rows) {
        const model::Transformer model(of, zero, mesh,
                                       {.policies = config::ActivationPolicy::input});
        return find_likely(rows, world, mesh, model, [](double) {});
    };
    auto likely = compute(is_merged ? scale_adapters(spec, 0) : spec, references.rows);
    if (!likely) return likely.failure();
    if (!likely.value()) return std::nullopt;
    if (is_merged && !has_magnitudes(spec)) {
        const std::vector first(references.rows.begin(),
                                references.rows.begin() + rows_of_mistakes);
        for (const auto& [name, factor] :
             {std::pair{"the adapter is added to the weights twice", 1.0},
              std::pair{"the adapter is not in the weights", -1.0}}) {
            auto wrong = compute(scale_adapters(spec, factor), first);
            if (!wrong) return wrong.failure();
            if (wrong.value()) references.mistakes.push_back({name, *std::move(wrong).value()});
        }
    }
    references.weights = form.type == hub::StoredType::bf16 ? "bfloat16" : "float32";
    references.computed = "float32";
    references.is_exact = !is_merged || !has_magnitudes(spec);
    return finish_references(folder, std::move(references), *std::move(likely).value(), world);
}

namespace {

// Files in a folder of this host, until the end of a scope: readers of a model take a folder.
class TemporaryFolder {
public:
    static Expected<std::unique_ptr<TemporaryFolder>> write(
        const std::map<std::string, std::string>& files) {
        std::error_code error;
        std::string folder = (fs::temp_directory_path(error) / "ringshard-rows-XXXXXX").string();
        if (!error && mkdtemp(folder.data()) == nullptr)
            error.assign(errno, std::generic_category());
        if (error)
            return Failure{ExitCode::io,
                           format_text("{}: no folder for temporary files can be made: {}; set "
                                       "TMPDIR to one that can be written",
                                       folder, error.message())};
        auto made = std::make_unique<TemporaryFolder>(folder);
        for (const auto& [name, content] : files)
            if (auto failure = write_file_in(made->path_, name, content)) return *failure;
        return made;
    }
    explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {}
    ~TemporaryFolder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

}  // namespace

comm::Agreed<std::optional<RunReferences>> RunReferences::make(
    const std::map<std::string, std::string>& files, const model::ModelSpec& spec,
    const comm::Group& world) {
    std::unique_ptr<TemporaryFolder> folder;
    if (world.is_root()) {
        auto written = TemporaryFolder::write(files);
        if (written)
            folder = std::move(written).value();
        else
            std::cerr << format_text(
                "warning: {}; {} is left out, and `trainer verify` cannot check these files\n",
                written.failure().message, data::References::file_name);
    }
    if (world.sum(folder ? 1 : 0) == 0) return std::optional<RunReferences>();
    auto rows = begin_references(folder ? folder->path() : fs::path(), spec, world);
    if (!rows) return rows.failure();
    return std::optional(RunReferences(std::move(rows).value()));
}

comm::Agreed<std::string> RunReferences::compute(const model::Transformer& model,
                                                 at::ScalarType type, const mesh::Mesh& mesh,
                                                 const comm::Group& world,
                                                 const std::function<void(double)>& before) const {
    auto likely = find_likely(rows_.rows, world, mesh, model, before);
    if (!likely) return likely.failure();
    if (!world.is_root() || !likely.value()) return std::string();
    data::References references = rows_;
    const bool computes_fp32 = type == at::kFloat;
    references.weights = references.computed = computes_fp32 ? "float32" : "bfloat16";
    // GPUs may round the factors of fp32 products.
    references.is_exact = computes_fp32 && mesh.device().is_cpu();
    return with_numbers(std::move(references), *std::move(likely).value()).to_json();
}

}  // namespace ringshard::run
