#include "ringshard/train/generator.hpp"

#include <ATen/ops/argmax.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"

namespace ringshard::train {

namespace {

// Rank r goes on from the prompts r, r + world, ... A rank for which none is left takes the first,
// whose text rank 0 has too.
std::vector<size_t> share_of(size_t num_prompts, const comm::Group& world) {
    std::vector<size_t> mine;
    for (auto prompt = static_cast<size_t>(world.rank()); prompt < num_prompts;
         prompt += static_cast<size_t>(world.size()))
        mine.push_back(prompt);
    if (mine.empty()) mine.push_back(0);
    return mine;
}

at::Tensor numbers(const std::vector<int64_t>& values, at::Device device) {
    return at::tensor(values, at::kLong).to(device);
}

// The tokens of a text that one pass takes: all of them, or the newest one.
struct Passage {
    int64_t first;  // position
    int64_t length;
};

// The queries of a passage, which begin at `query` in the batch, over the keys of its text, which
// begin at `key` in the caches.
attention::Tile tile_of(const Passage& passage, int64_t query, int64_t key,
                        const attention::Mask& mask) {
    const int64_t seen = passage.first + passage.length;
    if (passage.length == 1) {
        const int64_t begin = mask.window ? std::max<int64_t>(0, seen - *mask.window) : 0;
        return {query, key + begin, 1, seen - begin, ops::every_key};
    }
    ops::Band band = ops::causal;
    if (mask.window && *mask.window < seen) band.back = *mask.window - 1;
    return {query, key, passage.length, seen, band};
}

// Where documents are longer than this, longrope rotates all of their keys by other frequencies.
std::optional<int64_t> length_of_short(const model::ModelSpec& spec) {
    for (const model::RopeSpec& rope : spec.ropes)
        if (rope.kind == model::RopeKind::longrope)
            return static_cast<int64_t>(rope.original_positions);
    return std::nullopt;
}

}  // namespace

Generator::Generator(std::vector<data::Prompt> prompts, Options options, const comm::Group& world,
                     at::Device device, const model::Transformer& model)
    : prompts_(std::move(prompts)),
      mine_(share_of(prompts_.size(), world)),
      options_(std::move(options)),
      world_(world),
      device_(device),
      model_(model) {
    for (const size_t prompt : mine_)
        capacity_ =
            std::max(capacity_, std::ssize(prompts_[prompt].tokens) + options_.max_new_tokens);
}

bool Generator::is_at_end(const Tokens& generated) const {
    return std::ssize(generated) == options_.max_new_tokens ||
           std::ranges::find_first_of(generated, options_.end_tokens) != generated.end();
}

// A text that has ended repeats its newest token; the results are ignored.
Generator::Pass Generator::pass_after(const std::vector<Tokens>& generated) const {
    const std::vector<attention::Mask>& masks = model_.masks();
    std::vector<int64_t> tokens;
    std::vector<int64_t> positions;
    std::vector<int64_t> places;
    std::vector<int64_t> last;  // of each text
    std::vector<std::vector<attention::Tile>> tiles(masks.size());
    std::vector<int64_t> lengths;  // so far, of the text of each token
    std::vector<int64_t> begun;
    attention::Chain texts;
    const std::optional<int64_t> longest_short = length_of_short(model_.spec());
    for (size_t i = 0; i < mine_.size(); ++i) {
        Tokens text = prompts_[mine_[i]].tokens;
        text.insert(text.end(), generated[i].begin(), generated[i].end());
        const int64_t length = std::ssize(text);
        const bool takes_all =
            generated[i].empty() || (longest_short && length == *longest_short + 1);
        const Passage passage = takes_all ? Passage{0, length} : Passage{length - 1, 1};
        const int64_t key = static_cast<int64_t>(i) * capacity_;
        if (takes_all) begun.push_back(static_cast<int64_t>(i));
        texts.stretches.push_back({std::ssize(tokens), passage.length});
        for (size_t mask = 0; mask < masks.size(); ++mask)
            tiles[mask].push_back(tile_of(passage, std::ssize(tokens), key, masks[mask]));
        for (int64_t position = passage.first; position < passage.first + passage.length;
             ++position) {
            tokens.push_back(text[static_cast<size_t>(position)]);
            positions.push_back(position);
            lengths.push_back(length);
            places.push_back(key + position);
        }
        last.push_back(std::ssize(tokens) - 1);
    }
    Pass pass{{.tokens = numbers(tokens, device_),
               .positions = numbers(positions, device_),
               .target_places = numbers(last, device_),
               .document_lengths = numbers(lengths, device_)},
              numbers(places, device_),
              std::move(begun)};
    for (size_t mask = 0; mask < masks.size(); ++mask) {
        attention::Plan plan{.num_tokens = std::ssize(tokens), .steps = {}, .meets_once = true};
        if (masks[mask].through_state)
            plan.chain = texts;
        else
            plan.steps.push_back(std::move(tiles[mask]));
        pass.batch.plans.push_back(std::move(plan));
    }
    return pass;
}

// All tokens of a pass are of one learner.
std::vector<int64_t> Generator::bounds_of(size_t learner, int64_t num_tokens) const {
    std::vector<int64_t> bounds(narrow<size_t>(model_.spec().num_learners()) + 1, 0);
    std::fill(bounds.begin() + static_cast<int64_t>(learner) + 1, bounds.end(), num_tokens);
    return bounds;
}

void Generator::prepare(model::LayerCache& cache, const Pass& pass) {
    cache.keys.places = pass.places;
    if (!cache.states.states.defined()) return;
    for (const int64_t text : pass.begun) {
        cache.states.states[text].zero_();
        cache.states.before[text].zero_();
    }
}

std::vector<Generator::Tokens> Generator::generate_mine(size_t learner) const {
    std::vector<Tokens> generated(mine_.size());
    std::vector<model::LayerCache> caches =
        model_.make_caches(std::ssize(mine_) * capacity_, std::ssize(mine_));
    const auto is_under_way = [&] {
        return !std::ranges::all_of(generated, [&](const Tokens& text) { return is_at_end(text); });
    };
    // Modules are gathered from all ranks: a rank whose texts are at their ends goes on with them.
    do {
        Pass pass = pass_after(generated);
        pass.batch.learner_bounds = bounds_of(learner, pass.batch.tokens.size(0));
        for (model::LayerCache& cache : caches) prepare(cache, pass);
        const at::Tensor next = model_.next_logits(pass.batch, caches).argmax(1).to(at::kCPU);
        for (size_t i = 0; i < generated.size(); ++i)
            if (!is_at_end(generated[i]))
                generated[i].push_back(static_cast<int32_t>(next.const_data_ptr<int64_t>()[i]));
    } while (world_.maximum(is_under_way() ? 1 : 0) == 1);
    return generated;
}

std::vector<TextSample> Generator::generate(size_t learner) const {
    using nlohmann::json;
    std::vector<std::vector<Tokens>> all;  // by rank
    for (const std::string& of_rank : world_.gather_to_root(json(generate_mine(learner)).dump()))
        all.push_back(parse_json<json>(of_rank).value().get<std::vector<Tokens>>());
    if (!world_.is_root()) return {};
    std::vector<TextSample> samples(prompts_.size());
    for (size_t prompt = 0; prompt < prompts_.size(); ++prompt) {
        const Tokens& tokens = all[prompt % all.size()][prompt / all.size()];
        const auto end = std::ranges::find_first_of(tokens, options_.end_tokens);
        samples[prompt] = {.prompt = prompts_[prompt].text,
                           .text = options_.to_text({tokens.begin(), end}),
                           .num_tokens = std::ssize(tokens),
                           .has_ended = end != tokens.end()};
    }
    return samples;
}

}  // namespace ringshard::train
