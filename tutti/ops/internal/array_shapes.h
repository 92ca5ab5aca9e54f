// Shape rules of the array ops.
#pragma once

#include <string_view>

#include "tutti/graph/shape_inference.h"

namespace tutti::internal {

// Attributes of the ops that say with bits what each index of a slice means.
inline constexpr std::string_view kSliceMasks =
    "begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0";

Status shapes_of_inputs(ShapeContext& c);  // output i: a vector with a place for every dimension of input i
Status reshape_shape(ShapeContext& c);
Status expand_dims_shape(ShapeContext& c);
Status squeeze_shape(ShapeContext& c);
Status transpose_shape(ShapeContext& c);
Status vector_unchanged_shape(ShapeContext& c);  // input 0 is a vector; output 0 is like it
Status concat_shape(ShapeContext& c);            // axis first
Status concat_v2_shape(ShapeContext& c);         // axis last
Status concat_offset_shape(ShapeContext& c);
Status pack_shape(ShapeContext& c);
Status unpack_shape(ShapeContext& c);
Status split_shape(ShapeContext& c);
Status split_v_shape(ShapeContext& c);
Status slice_shape(ShapeContext& c);
Status strided_slice_shape(ShapeContext& c);
Status tile_shape(ShapeContext& c);
Status broadcast_to_shape(ShapeContext& c);
Status broadcast_args_shape(ShapeContext& c);
Status open_vectors_shape(ShapeContext& c);  // every output is a vector of open length
Status gather_shape(ShapeContext& c);
Status gather_v2_shape(ShapeContext& c);
Status gather_nd_shape(ShapeContext& c);
Status scatter_nd_shape(ShapeContext& c);
Status where_shape(ShapeContext& c);
Status unique_shape(ShapeContext& c);
Status list_diff_shape(ShapeContext& c);
Status sparse_to_dense_shape(ShapeContext& c);
Status one_hot_shape(ShapeContext& c);
Status range_shape(ShapeContext& c);
Status lin_space_shape(ShapeContext& c);
Status dynamic_partition_shape(ShapeContext& c);
Status dynamic_stitch_shape(ShapeContext& c);
Status pad_shape(ShapeContext& c);
Status unsorted_segment_shape(ShapeContext& c);
Status segment_shape(ShapeContext& c);
Status ensure_shape_shape(ShapeContext& c);
Status bitcast_shape(ShapeContext& c);

// params with dimension `axis` replaced by indices, the first `batch_dims` of both going together.
Result<PartialShape> gathered_shape(const PartialShape& params, const PartialShape& indices, std::int64_t axis,
                                    std::int64_t batch_dims);
// The value of integer input i, a scalar or vector, when it is known.
std::optional<std::vector<std::int64_t>> constant_ints(const ShapeContext& c, int i);

}  // namespace tutti::internal
