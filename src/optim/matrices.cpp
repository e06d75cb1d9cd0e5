#include "matrices.hpp"

#include "ringshard/optim/update_groups.hpp"

namespace ringshard::optim {

bool is_stack_of_vectors(const shard::ParameterGroup& group) {
    return group.is_divided && group.tensors.size() == 1 && group.tensors.front().shape.size() == 2;
}

std::vector<Matrix> matrices_of(const shard::Zero& zero, const shard::Shelf& shelf) {
    std::vector<Matrix> matrices;
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        if (&zero.shelf_of(unit) != &shelf) continue;
        const shard::Range section = zero.section_range(unit);
        for (const shard::TensorPiece& piece : zero.units()[unit].pieces(section)) {
            const MatrixShape shape = matrices_of(*piece.tensor);
            const int64_t begin = section.begin + piece.in_range;
            for (int64_t done = 0; done < piece.size; done += shape.size())
                matrices.push_back({unit,
                                    {begin + done, begin + done + shape.size()},
                                    shape.rows,
                                    shape.columns,
                                    piece.tensor->variant});
        }
    }
    return matrices;
}

}  // namespace ringshard::optim
