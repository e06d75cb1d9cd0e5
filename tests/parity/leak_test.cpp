// A changed token of one document moves no logit of another by a bit, in every layout.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "golden.hpp"
#include "layout_run.hpp"
#include "mpi_test.hpp"

using namespace ringshard;

namespace {

constexpr mesh::Cuts multi_gpu{false, false, false, true};
constexpr mesh::Cuts zero3{true, true, true, false};

struct Layout {
    mesh::Cuts cuts;
    mesh::MeshShape shape;  // replicate x shard x ring x ulysses
};
const std::vector<Layout> layouts{
    {multi_gpu, {1, 1, 1, 1}},

    {multi_gpu, {2, 1, 1, 1}}, {multi_gpu, {1, 1, 2, 1}}, {multi_gpu, {1, 1, 1, 2}},
    {zero3, {1, 2, 1, 1}},     {zero3, {1, 1, 2, 1}},     {zero3, {1, 1, 1, 2}},

    {zero3, {2, 2, 1, 1}},     {zero3, {1, 1, 4, 1}},     {zero3, {1, 1, 1, 4}},
    {multi_gpu, {1, 1, 2, 2}}, {zero3, {1, 1, 2, 2}},     {zero3, {1, 2, 2, 1}},
    {zero3, {1, 2, 1, 2}},     {zero3, {2, 1, 2, 1}},

    {zero3, {1, 1, 8, 1}},     {multi_gpu, {1, 1, 2, 4}}, {zero3, {1, 1, 4, 2}},
    {zero3, {1, 2, 2, 2}},     {zero3, {2, 1, 2, 2}},
};

// Which logits differ at all between two batches that differ in one token.
void expect_no_leak(const std::string& name, const Layout& layout, test::RowKind kind,
                    const data::Rows& rows, const std::filesystem::path& adapter = {},
                    shard::Codec frozen_form = shard::Codec::compute) {
    test::TestModel model(test::world(), test::golden_folder() / "models" / name,
                          {.shape = layout.shape,
                           .cuts = layout.cuts,
                           .adapter = adapter,
                           .frozen_form = frozen_form});
    const std::vector<int64_t> numbers{0, 1};
    data::FlatBatch batch = data::flatten(rows, numbers);
    // One long document and short ones are cut document by document: several runs for every rank.
    if (kind == test::RowKind::uneven && layout.shape.ring > 1)
        BOOST_TEST(train::partition_of(batch, layout.shape).of_ring_rank(0).size() > 2);
    const at::Tensor before = model.logits(batch);
    const auto changed =
        static_cast<size_t>(batch.document_starts[1] - 3);  // near the end of the first document
    batch.tokens[changed] = (batch.tokens[changed] + 1) % 512;
    const at::Tensor after = model.logits(batch);
    const auto place = static_cast<int64_t>(changed);
    BOOST_TEST(after.narrow(0, 0, place)
                   .equal(before.narrow(0, 0, place)));  // earlier tokens do not see it
    BOOST_TEST(!after[place].equal(before[place]));
    const int64_t second = batch.document_starts[1];
    const int64_t rest = after.size(0) - second;
    BOOST_TEST(after.narrow(0, second, rest).equal(before.narrow(0, second, rest)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(documents_do_not_see_each_other) {
    for (const auto& [kind, name] :
         {std::pair(test::RowKind::one_document, ""), std::pair(test::RowKind::packed, ", packed"),
          std::pair(test::RowKind::uneven, ", uneven")}) {
        const data::Rows rows = test::make_rows(kind, 2, 150);
        for (const Layout& layout : layouts) {
            if (layout.shape.world() != test::world().size()) continue;
            BOOST_TEST_INFO_SCOPE(to_text(layout.shape) << name);
            expect_no_leak("qwen2-tiny", layout, kind, rows);
            // Its queries and keys are normed over all heads, before they are divided among ranks.
            if (kind == test::RowKind::packed) expect_no_leak("olmo2-tiny", layout, kind, rows);
            if (kind == test::RowKind::one_document) continue;
            const auto start = test::golden_folder() / "adapters" / "start";
            if (kind == test::RowKind::packed && layout.shape.world() <= 2)
                for (const char* adapter :
                     {"qwen2_head", "llama3_head_dora", "qwen2_lora_bias", "qwen3_patterns",
                      "llama3_embedding", "qwen2_embedding", "llama3_rows_of_both", "qwen2_rows"}) {
                    const std::string base(adapter, std::strchr(adapter, '_'));
                    expect_no_leak(base + "-tiny", layout, kind, rows, start / adapter);
                }
            expect_no_leak("qwen2-tiny", layout, kind, rows, start / "qwen2_qv");
            expect_no_leak("qwen2-tiny", layout, kind, rows, start / "qwen2_dora");
            expect_no_leak("qwen3-tiny", layout, kind, rows, start / "qwen3_all",
                           shard::Codec::nf4);
            expect_no_leak("llama3-tiny", layout, kind, rows, start / "llama3_all",
                           shard::Codec::nested_nf4);
        }
    }
}
