#include "ringshard/shard/flat_unit.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <boost/test/unit_test.hpp>

using namespace ringshard::shard;

namespace {

FlatUnit make_unit(int64_t num_parts) {
    return {"unit",
            {{{{"q", {6, 5}}, {"k", {2, 5}}}},
             {{{"norm", {5}}}},
             {{{"out", {5, 7}}}},
             {{{"q.bias", {6}}, {"k.bias", {2}}}}},
            num_parts};
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_lie_side_by_side_and_matrices_come_first) {
    const FlatUnit unit = make_unit(3);
    BOOST_TEST(unit.size() % 3 == 0);
    BOOST_TEST(unit.tensors()[0].offset == 0);
    BOOST_TEST(unit.tensors()[1].spec.name == "k");
    BOOST_TEST(unit.tensors()[1].offset == 30);  // directly after q
    BOOST_TEST(unit.tensors()[2].spec.name == "out");
    BOOST_TEST(unit.tensors()[2].offset % 32 == 0);
    for (const PlacedTensor& tensor : unit.tensors())
        BOOST_TEST((tensor.offset < unit.matrices_end()) == (tensor.spec.shape.size() == 2));
}

BOOST_AUTO_TEST_CASE(outputs_of_adapters_lie_between_matrices_and_vectors) {
    UnitLayout layout("unit");
    const auto is_output = [](const TensorSpec& tensor) {
        return ParameterGroup{.tensors = {tensor},
                              .is_made_by_run = true,
                              .update = UpdateKind::decaying_at_own_rate};
    };
    layout.add({{{"norm", {5}}}});
    layout.add(is_output({"magnitude", {6}}));
    layout.add(is_output({"b", {6, 2}}));
    layout.add({{{"a", {2, 5}}}});
    const FlatUnit unit = layout.finish(1).front();
    BOOST_TEST(unit.matrices_end() == 10);
    for (const PlacedTensor& tensor : unit.tensors()) {
        BOOST_TEST_INFO_SCOPE(tensor.spec.name);
        BOOST_TEST((tensor.offset < unit.matrices_end()) == (tensor.spec.name == "a"));
        BOOST_TEST((tensor.offset >= unit.decaying_end()) == (tensor.spec.name == "norm"));
    }
}

BOOST_AUTO_TEST_CASE(adapters_that_train_together_lie_as_in_units_of_their_own) {
    constexpr int64_t num_parts = 3;
    const auto add_adapter = [](UnitLayout& layout, int64_t rank, size_t adapter) {
        layout.add({.tensors = {{"a", {rank, 5}}}, .is_made_by_run = true, .variant = adapter});
        layout.add({.tensors = {{"b", {7, rank}}},
                    .is_made_by_run = true,
                    .update = UpdateKind::decaying_at_own_rate,
                    .variant = adapter});
    };
    UnitLayout together("unit");
    for (const size_t adapter : {0UL, 1UL}) add_adapter(together, adapter == 0 ? 2 : 30, adapter);
    const FlatUnit unit = together.finish(num_parts).front();
    BOOST_TEST(unit.num_variants() == 2);
    int64_t end = 0;
    for (const FlatUnit::UpdateRange& section : unit.update_ranges()) {
        BOOST_TEST(section.range.begin == end);
        end = section.range.end;
    }
    BOOST_TEST(end == unit.size());
    for (const size_t adapter : {0UL, 1UL}) {
        UnitLayout alone("unit");
        add_adapter(alone, adapter == 0 ? 2 : 30, 0);
        const FlatUnit own = alone.finish(num_parts).front();
        const Range range = unit.variant_range(adapter);
        BOOST_TEST(range.size() == own.size());
        for (size_t tensor = 0; tensor < own.tensors().size(); ++tensor)
            BOOST_TEST(unit.tensors()[2 * adapter + tensor].offset - range.begin ==
                       own.tensors()[tensor].offset);
        for (size_t section = 0; section < 3; ++section)
            BOOST_TEST(unit.update_ranges()[3 * adapter + section].range.size() ==
                       own.update_ranges()[section].range.size());
    }
}

BOOST_AUTO_TEST_CASE(handles_lead_to_what_was_added) {
    UnitLayout layout("unit", "layer.");
    const ParameterId norm = layout.add({{{"norm", {5}}}, InitialValues::ones});
    const ParameterId qk = layout.add({{{"q", {6, 5}}, {"k", {2, 5}}}});
    const FlatUnit unit = layout.finish(3).front();
    BOOST_TEST(unit.name() == "unit");
    BOOST_TEST(unit.tensors()[0].spec.name == "layer.q");
    BOOST_TEST((unit.tensors()[0].initial == InitialValues::normal));
    BOOST_TEST((unit.tensors()[2].initial == InitialValues::ones));

    const at::Tensor flat = at::arange(unit.size(), at::TensorOptions(at::kFloat));
    const UnitTensors tensors(unit, flat);
    BOOST_TEST(tensors[qk].sizes().vec() == (std::vector<int64_t>{8, 5}),
               boost::test_tools::per_element());
    BOOST_TEST(tensors[norm].sizes().vec() == std::vector<int64_t>{5},
               boost::test_tools::per_element());
    BOOST_TEST(tensors[norm][0].item<float>() == static_cast<float>(unit.matrices_end() + 24));
    BOOST_TEST((tensors.addresses() == std::vector<const void*>{flat.const_data_ptr()}));
}

BOOST_AUTO_TEST_CASE(products_begin_the_gradients_of_some_matrices) {
    UnitLayout layout("unit");
    const ParameterId norm = layout.add({{{"norm", {5}}}});
    const ParameterId up = layout.add({.tensors = {{"up", {8, 9}}}, .is_overwritten = true});
    const ParameterId table = layout.add({{{"table", {4, 8}}}});
    const ParameterId down = layout.add({.tensors = {{"down", {9, 7}}}, .is_overwritten = true});
    const FlatUnit unit = layout.finish(2).front();
    const at::Tensor flat = at::ones({unit.size()});
    for (const auto& range : unit.begun_with_zeros())
        flat.narrow(0, range.begin, range.size()).zero_();
    std::vector<bool> unbegun = unit.overwritten();
    BOOST_TEST(flat.sum().item<double>() == 8 * 9 + 9 * 7);
    const UnitTensors gradients({{&unit, flat, at::kFloat, &unbegun}});
    BOOST_TEST(gradients[norm].sum().item<double>() == 0);
    BOOST_TEST(!gradients.sum(table).begins);
    // A product that asks finds old numbers, once.
    const UnitTensors::Sum first = gradients.sum(up);
    BOOST_TEST(first.begins);
    BOOST_TEST(first.numbers.sum().item<double>() == 8 * 9);
    BOOST_TEST(!gradients.sum(up).begins);
    // Nobody else sees any.
    BOOST_TEST(gradients[down].sum().item<double>() == 0);
    BOOST_TEST(!gradients.sum(down).begins);
    BOOST_TEST(gradients[up].sum().item<double>() == 8 * 9);
    unbegun = unit.overwritten();
    gradients.begin_all();
    BOOST_TEST(flat.sum().item<double>() == 0);
    BOOST_TEST(!gradients.sum(up).begins);
}

// Experts that ranks share, and slices of them, are units of their own.
BOOST_AUTO_TEST_CASE(products_begin_the_gradients_of_experts) {
    for (const bool is_shared : {true, false})
        for (const bool is_stacked : {true, false}) {
            BOOST_TEST_INFO_SCOPE((is_shared ? "shared" : "slices")
                                  << (is_stacked ? ", stacked" : ""));
            UnitLayout layout("unit");
            layout.add({{{"norm", {5}}}});
            std::vector<ringshard::shard::TensorSpec> tensors{{"experts", {4, 6, 3}}};
            if (!is_stacked) {
                tensors.clear();
                for (int64_t expert = 0; expert < 4; ++expert)
                    tensors.push_back({std::string(1, static_cast<char>('a' + expert)), {6, 3}});
            }
            const ParameterId experts =
                layout.add({.tensors = tensors, .is_divided = true, .is_overwritten = true});
            int64_t units_of_experts = 0;
            for (const FlatUnit& unit : layout.finish(2, 0, is_shared ? 2 : 1, is_shared ? 1 : 2)) {
                if (!unit.holds(experts)) continue;
                ++units_of_experts;
                const at::Tensor flat = at::full({unit.section_size()}, 1.0);
                for (const auto& range : unit.begun_with_zeros())
                    flat.narrow(0, range.begin, range.size()).zero_();
                std::vector<bool> unbegun = unit.overwritten();
                const UnitTensors gradients({{&unit, flat, at::kFloat, &unbegun}});
                const UnitTensors::Sum first = gradients.sum(experts);
                BOOST_TEST(first.begins);
                BOOST_TEST(first.numbers.numel() == 2 * 6 * 3);  // of two experts
                BOOST_TEST(flat.sum().item<double>() == 2 * 6 * 3);
                first.numbers.zero_();
                BOOST_TEST(flat.sum().item<double>() == 0);
            }
            BOOST_TEST(units_of_experts == (is_shared ? 1 : 2));
        }
}

BOOST_AUTO_TEST_CASE(vectors_that_decay_lie_among_the_matrices) {
    UnitLayout layout("unit");
    layout.add({{{"norm", {5}}}, InitialValues::ones});
    const ParameterId rate = layout.add({.tensors = {{"rate", {4}}},
                                         .initial = InitialValues::log_uniform,
                                         .update = UpdateKind::decaying});
    const FlatUnit unit = layout.finish(1).front();
    BOOST_TEST(unit.tensors()[0].spec.name == "rate");
    BOOST_TEST(unit.matrices_end() == 4);
    const UnitTensors tensors(unit, at::zeros({unit.size()}));
    BOOST_TEST(tensors[rate].numel() == 4);
}

BOOST_AUTO_TEST_CASE(a_module_has_a_unit_for_each_role) {
    UnitLayout layout("block", "layer.");
    const ParameterId norm = layout.add({{{"norm", {5}}}});
    const ParameterId qk = layout.add({{{"q", {6, 5}}, {"k", {2, 5}}}});
    const ParameterId out = layout.add({{{"out", {5, 6}}}});
    layout.freeze({"layer.q", "layer.k", "elsewhere"});
    const std::vector<FlatUnit> units = layout.finish(3, 7);
    BOOST_REQUIRE(units.size() == 2);
    BOOST_TEST((units[0].is_trained()));
    BOOST_TEST((!units[1].is_trained()));
    BOOST_TEST(!layout.is_trained(qk));
    BOOST_TEST(units[0].name() == "block");
    BOOST_TEST(units[1].name() == "block (frozen)");
    for (const FlatUnit& unit : units) BOOST_TEST(unit.module() == 7);
    BOOST_TEST((units[0].holds(norm) && units[0].holds(out) && !units[0].holds(qk)));

    // Each handle leads into the unit that holds its tensors.
    const at::Tensor trained = at::zeros({units[0].size()});
    const at::Tensor frozen = at::ones({units[1].size()});
    const UnitTensors weights({{&units[0], trained}, {&units[1], frozen}});
    BOOST_TEST(weights[qk].sum().item<float>() == 40);
    BOOST_TEST(weights[norm].numel() == 5);
    BOOST_TEST(weights[out].sum().item<float>() == 0);
    BOOST_TEST(weights.addresses().size() == 2);
    const UnitTensors gradients(units[0], trained);
    BOOST_TEST(!gradients[qk].defined());
    BOOST_TEST(gradients[out].defined());

    BOOST_CHECK_THROW(layout.freeze({"layer.q"}), std::exception);  // and k is one matrix with it
}

// The pieces of all parts, together, are every tensor, once.
BOOST_AUTO_TEST_CASE(pieces_of_parts_make_up_the_tensors) {
    for (const int64_t num_parts : {1, 2, 3, 5, 8}) {
        const FlatUnit unit = make_unit(num_parts);
        std::map<std::string, int64_t> next;
        for (int64_t part = 0; part < num_parts; ++part) {
            const Range range = part_of(unit.size(), part, num_parts);
            BOOST_TEST(range.size() == unit.size() / num_parts);
            for (const TensorPiece& piece : unit.pieces(range)) {
                BOOST_TEST(piece.first == next[piece.tensor->spec.name]);
                BOOST_TEST(range.begin + piece.in_range == piece.tensor->offset + piece.first);
                next[piece.tensor->spec.name] += piece.size;
            }
        }
        for (const PlacedTensor& tensor : unit.tensors())
            BOOST_TEST(next[tensor.spec.name] == tensor.size);
    }
}

// Each part begins with a block, and knows the weights whose codes it holds.
BOOST_AUTO_TEST_CASE(parts_in_four_bits_hold_whole_blocks) {
    UnitLayout layout("block");
    layout.add({{{"q", {60, 50}}, {"k", {20, 50}}}});
    layout.add({{{"norm", {50}}}});
    layout.freeze({"q", "k", "norm"});
    for (const Codec form : {Codec::nf4, Codec::nested_nf4}) {
        layout.set_codec(form);
        for (const int64_t num_parts : {1, 2, 3, 8}) {
            const std::vector<FlatUnit> units = layout.finish(num_parts);
            BOOST_REQUIRE(units.size() == 2);
            BOOST_TEST(units[0].codes() == nullptr);
            const FlatUnit& unit = units[1];
            // 47 and 16 blocks.
            BOOST_TEST(unit.codes()->num_scales() == 63);
            BOOST_TEST(unit.codes()->bytes() >= 63 * (32 + (form == Codec::nf4 ? 4 : 1)));
            std::map<std::string, int64_t> next;
            for (int64_t part = 0; part < num_parts; ++part)
                for (const TensorPiece& piece :
                     unit.pieces(part_of(unit.size(), part, num_parts))) {
                    BOOST_TEST(piece.first % 64 == 0);
                    BOOST_TEST(piece.in_range % 64 == 0);
                    BOOST_TEST(piece.first == next[piece.tensor->spec.name]);
                    next[piece.tensor->spec.name] += piece.size;
                }
            BOOST_TEST(next.at("q") == 3000);
            BOOST_TEST(next.at("k") == 1000);
        }
    }
}

// Codes of rows lie one after the other, and the ranges of scales that begin in the parts make up
// all of them.
BOOST_AUTO_TEST_CASE(parts_in_eight_bits_divide_rows_and_scales) {
    UnitLayout layout("block");
    layout.add({.tensors = {{"stack", {4, 10, 7}}}, .is_divided = true});
    layout.add({.tensors = {{"0", {3, 50}}, {"1", {3, 50}}}, .is_divided = true});
    layout.freeze({"stack", "0", "1"});
    layout.set_codec(Codec::int8);
    for (const auto& [parts, sections, slices] :
         {std::tuple{1, 1, 1}, {3, 1, 1}, {2, 1, 2}, {4, 2, 1}}) {
        std::map<std::string, int64_t> next;
        for (const FlatUnit& unit : layout.finish(parts, 0, sections, slices)) {
            const CodeLayout& codes = *unit.codes();
            BOOST_TEST(codes.num_scales() == (40 + 6) / sections / slices);
            BOOST_TEST(codes.bytes() >= codes.code_bytes() + 4 * codes.num_scales());
            for (int64_t part = 0; part < parts; ++part)
                for (const TensorPiece& piece : unit.pieces(part_of(unit.size(), part, parts))) {
                    BOOST_TEST(piece.first == next[piece.tensor->spec.name]);
                    next[piece.tensor->spec.name] += piece.size;
                }
            int64_t begun = 0;
            for (int64_t part = 0; part < parts / sections; ++part) {
                const Range scales =
                    codes.scales_begun_in(part_of(unit.section_size(), part, parts / sections));
                BOOST_TEST(scales.begin == begun);
                begun = scales.end;
            }
            BOOST_TEST(begun == codes.num_scales());
        }
        BOOST_TEST(next.at("stack") == 280);
        BOOST_TEST(next.at("1") == 150);
    }
}

// Of experts each matrix has blocks of its own, in slices, in sections and all together: a stack of
// them, and single ones.
BOOST_AUTO_TEST_CASE(experts_in_four_bits_lie_matrix_by_matrix) {
    UnitLayout layout("block");
    const ParameterId stack = layout.add({.tensors = {{"stack", {4, 10, 7}}}, .is_divided = true});
    const ParameterId single =
        layout.add({.tensors = {{"0", {3, 30}}, {"1", {3, 30}}, {"2", {3, 30}}, {"3", {3, 30}}},
                    .is_divided = true});
    layout.add({.tensors = {{"router", {4, 30}}}, .is_never_quantised = true});
    layout.freeze({"stack", "0", "1", "2", "3", "router"});
    layout.set_codec(Codec::nested_nf4);
    for (const auto& [parts, sections, slices] :
         {std::tuple{3, 1, 1}, {2, 1, 4}, {4, 2, 1}, {4, 4, 1}}) {
        const std::vector<FlatUnit> units = layout.finish(parts, 0, sections, slices);
        BOOST_TEST(units.size() == static_cast<size_t>(1 + slices));
        BOOST_TEST(units[0].codes() == nullptr);
        std::map<std::string, int64_t> next;
        for (size_t u = 1; u < units.size(); ++u) {
            const FlatUnit& unit = units[u];
            const int64_t experts = 4 / sections / slices;
            BOOST_TEST(unit.codes()->num_scales() == experts * (2 + 2));
            BOOST_TEST(unit.size() % (parts * 32) == 0);
            for (int64_t part = 0; part < parts; ++part)
                for (const TensorPiece& piece : unit.pieces(part_of(unit.size(), part, parts))) {
                    BOOST_TEST(piece.in_range % 64 == 0);
                    BOOST_TEST(piece.first == next[piece.tensor->spec.name]);
                    next[piece.tensor->spec.name] += piece.size;
                }
            const at::Tensor flat = at::zeros({unit.section_size()}, at::TensorOptions(at::kByte));
            BOOST_TEST(unit.view(flat, stack, at::kFloat).sizes() ==
                       at::IntArrayRef({experts, 10, 7}));
            BOOST_TEST(unit.view(flat, single, at::kBFloat16, {0, experts}).sizes() ==
                       at::IntArrayRef({3, 30}));
        }
        BOOST_TEST(next.at("stack") == 4 * 70);
        for (const char* name : {"0", "1", "2", "3"}) BOOST_TEST(next.at(name) == 90);
    }
}

BOOST_AUTO_TEST_CASE(parts_that_do_not_divide_still_cover_everything) {
    int64_t end = 0;
    for (int64_t part = 0; part < 7; ++part) {
        const Range range = part_of(100, part, 7);
        BOOST_TEST(range.begin == end);
        end = range.end;
    }
    BOOST_TEST(end == 100);
    BOOST_TEST((intersect({0, 10}, {5, 20}) == Range{5, 10}));
    BOOST_TEST(intersect({0, 5}, {7, 9}).size() == 0);
}

// Six experts in three slices: as single tensors, and as one, of which each slice has a part.
BOOST_AUTO_TEST_CASE(slices_of_experts_are_units) {
    UnitLayout layout("block");
    const ParameterId norm = layout.add({{{"norm", {5}}}});
    ParameterGroup single;
    for (int expert = 0; expert < 6; ++expert)
        single.tensors.push_back({"up" + std::to_string(expert), {3, 5}});
    single.is_divided = true;
    const ParameterId up = layout.add(single);
    ParameterGroup stacked;
    stacked.tensors = {{"down", {6, 5, 3}}};
    stacked.is_divided = true;
    const ParameterId down = layout.add(stacked);

    const std::vector<FlatUnit> units = layout.finish(4, 7, 1, 3);
    BOOST_REQUIRE(units.size() == 4);
    BOOST_TEST((units[0].holds(norm) && !units[0].holds(up) && !units[0].holds(down)));
    BOOST_TEST(units[0].stage() == 0);
    for (size_t slice = 0; slice < 3; ++slice) {
        const FlatUnit& unit = units[slice + 1];
        BOOST_TEST(unit.name() == "block (slice " + std::to_string(slice) + ")");
        BOOST_TEST(unit.module() == 7);
        BOOST_TEST((!unit.comes_with(units[0]) && unit.comes_with(unit)));
        BOOST_TEST(unit.num_sections() == 1);
        BOOST_TEST(unit.size() == units[1].size());
        BOOST_TEST(unit.matrices_end() == unit.size());
        const std::vector<TensorPiece> pieces = unit.pieces({0, unit.size()});
        BOOST_REQUIRE(pieces.size() == 3);
        BOOST_TEST(pieces[0].tensor->spec.name == "up" + std::to_string(2 * slice));
        BOOST_TEST(pieces[2].tensor->spec.name == "down");
        BOOST_TEST(pieces[2].first == static_cast<int64_t>(slice) * 30);
        BOOST_TEST(pieces[2].size == 30);
        BOOST_TEST(pieces[2].tensor->begins_before == (slice > 0));
        BOOST_TEST(!pieces[0].tensor->begins_before);
        const at::Tensor flat = at::arange(unit.size(), at::TensorOptions(at::kFloat));
        const UnitTensors tensors =
            UnitTensors(units[0], at::zeros({units[0].size()})).joined(UnitTensors(unit, flat));
        BOOST_TEST(tensors[norm].numel() == 5);
        BOOST_TEST(tensors[up].sizes().vec() == (std::vector<int64_t>{6, 5}),
                   boost::test_tools::per_element());
        BOOST_TEST(tensors[down].sizes().vec() == (std::vector<int64_t>{2, 5, 3}),
                   boost::test_tools::per_element());
        BOOST_TEST(tensors[down].flatten()[0].item<float>() ==
                   static_cast<float>(pieces[2].in_range));
    }
    BOOST_CHECK_THROW(layout.finish(4, 7, 2, 3), std::exception);
    BOOST_CHECK_THROW(layout.finish(4, 7, 1, 4), std::exception);  // no equal parts
}

// Three ranks share six experts: two sections of the unit are alike but for the names.
BOOST_AUTO_TEST_CASE(experts_that_ranks_share_are_a_unit_of_sections) {
    UnitLayout layout("block");
    const auto experts = [](const std::string& name, const std::vector<int64_t>& shape) {
        ParameterGroup group;
        for (int expert = 0; expert < 6; ++expert)
            group.tensors.push_back({name + std::to_string(expert), shape});
        group.is_divided = true;
        return group;
    };
    const ParameterId norm = layout.add({{{"norm", {5}}}});
    const ParameterId up = layout.add(experts("up", {3, 5}));
    const ParameterId down = layout.add(experts("down", {5, 3}));
    BOOST_TEST(layout.finish(12).size() == 1);  // no rank shares: they lie beside the norm

    const std::vector<FlatUnit> units = layout.finish(12, 7, 3);
    BOOST_REQUIRE(units.size() == 2);
    BOOST_TEST((units[0].holds(norm) && !units[0].holds(up) && !units[0].holds(down)));
    const FlatUnit& unit = units[1];
    BOOST_TEST(unit.name() == "block (in sections)");
    BOOST_TEST(unit.module() == 7);
    BOOST_TEST(unit.num_sections() == 3);
    BOOST_TEST(unit.section_size() % 4 == 0);
    BOOST_TEST(unit.matrices_end() == unit.size());
    for (int64_t section = 0; section < 3; ++section) {
        const Range range = part_of(unit.size(), section, 3);
        const std::vector<TensorPiece> pieces = unit.pieces(range);
        BOOST_REQUIRE(pieces.size() == 4);
        const std::string first = std::to_string(2 * section);
        BOOST_TEST(pieces[0].tensor->spec.name == "up" + first);
        BOOST_TEST(pieces[2].tensor->spec.name == "down" + first);
        for (const TensorPiece& piece : pieces) BOOST_TEST(piece.size == 15);
        const at::Tensor flat = at::arange(range.begin, range.end, at::TensorOptions(at::kFloat));
        const UnitTensors tensors(unit, flat);
        BOOST_TEST(tensors[up].sizes().vec() == (std::vector<int64_t>{6, 5}),
                   boost::test_tools::per_element());
        BOOST_TEST(tensors[down][0][0].item<float>() ==
                   static_cast<float>(pieces[2].tensor->offset));
    }
    layout.add(experts("odd", {3}));  // not a matrix
    BOOST_CHECK_THROW(layout.finish(12, 7, 3), std::exception);
}
