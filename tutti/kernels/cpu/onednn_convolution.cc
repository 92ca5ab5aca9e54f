// Float convolutions on oneDNN. Images stay in NHWC, for which it has direct kernels that are as fast as those for its
// own blocked layouts (measured on AVX-512: 14x14x32->64, 7x7x64->128, 56x56x64->64, 1x1, all three directions; with
// reorders to blocked and back they are 5 to 50 % slower). The filter takes the layout it chooses: reordering it costs
// little, and the plain one falls to slow kernels. NCHW is reordered to NHWC and back. With AVX2 alone those kernels
// are slow for some shapes, which are computed in bands (banded_convolution.cc).
#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/kernels/cpu/convolution.h"
#include "tutti/kernels/cpu/internal/onednn.h"

namespace tutti::cpu::internal {
namespace {

using dnnl::memory;
using dnnl::prop_kind;

// Primitives kept by one kernel. Shapes beyond that are built anew each time.
constexpr std::size_t kMaxCached = 32;
// A piece of a convolution has at least this many multiply-adds: waking a second thread costs about as much.
constexpr std::int64_t kPieceWork = 250'000;

memory::desc image(const ConvShape& s, bool input, bool channels_first) {
  using tag = memory::format_tag;
  memory::dims dims{s.batch, input ? s.in_channels : s.out_channels, input ? s.rows.in : s.rows.out,
                    input ? s.columns.in : s.columns.out};
  if (!s.volumes) return {dims, memory::data_type::f32, channels_first ? tag::nchw : tag::nhwc};
  dims.insert(dims.begin() + 2, input ? s.planes.in : s.planes.out);
  return {dims, memory::data_type::f32, channels_first ? tag::ncdhw : tag::ndhwc};
}

memory::dims filter_dims(const ConvShape& s) {
  memory::dims dims{s.group_outputs(), s.group_inputs(), s.rows.kernel, s.columns.kernel};
  if (s.volumes) dims.insert(dims.begin() + 2, s.planes.kernel);
  if (s.groups > 1) dims.insert(dims.begin(), s.groups);
  return dims;
}

// [planes, rows, columns, inputs of a group, outputs]
memory::desc plain_filter(const ConvShape& s) {
  const std::int64_t per_column = s.group_inputs() * s.out_channels;
  const std::int64_t per_row = s.columns.kernel * per_column;
  memory::dims strides{1, s.out_channels, per_row, per_column};
  if (s.volumes) strides.insert(strides.begin() + 2, s.rows.kernel * per_row);
  if (s.groups > 1) strides.insert(strides.begin(), s.group_outputs());
  return {filter_dims(s), memory::data_type::f32, strides};
}

// What differs between the three directions, which oneDNN describes by three classes.
struct Description {
  memory::desc input, filter, output, scratch;
  dnnl::primitive primitive;
  std::string implementation;
};

struct Window {
  explicit Window(const ConvShape& s)
      : strides{s.rows.stride, s.columns.stride},
        dilations{s.rows.dilation - 1, s.columns.dilation - 1},
        before{s.rows.pad_before, s.columns.pad_before},
        after{s.rows.pad_after, s.columns.pad_after} {
    if (!s.volumes) return;
    strides.insert(strides.begin(), s.planes.stride);
    dilations.insert(dilations.begin(), s.planes.dilation - 1);
    before.insert(before.begin(), s.planes.pad_before);
    after.insert(after.begin(), s.planes.pad_after);
  }
  memory::dims strides, dilations, before, after;
};

memory::desc bias_of(const ConvShape& s) {
  return {memory::dims{s.out_channels}, memory::data_type::f32, memory::format_tag::a};
}

// Whether a pixel of the output takes so little work that brgconv, which oneDNN offers first and which makes a call for
// every few of them, is slower than its other generator: by 3 to 180 % up to here (AMD Zen 5, oneDNN 2.6, 1 to 16 input
// and 16 to 64 output channels, windows of 3x3 and 5x5), above it sometimes faster. Windows of one pixel have forms of
// their own.
bool has_small_pixels(const ConvShape& s) {
  constexpr std::int64_t kMostWork = 1600;  // multiply-adds
  return s.window_elements() > 1 && s.group_inputs() * s.window_elements() * s.out_channels <= kMostWork;
}

Description describe(ConvResult result, bool biased, const ConvShape& s) {
  dnnl::primitive_attr attributes;
  // Scratch memory comes from the step, which reuses it; oneDNN's own would be mapped anew.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto direct = dnnl::algorithm::convolution_direct;
  const memory::desc x = image(s, true, false);
  const memory::desc y = image(s, false, false);
  const memory::desc w(filter_dims(s), memory::data_type::f32, memory::format_tag::any);
  const Window k(s);
  // oneDNN looks at it again for the next implementation.
  const dnnl::convolution_forward::desc wanted(prop_kind::forward_training, direct, x, w,
                                               biased ? bias_of(s) : memory::desc(), y, k.strides, k.dilations,
                                               k.before, k.after);
  dnnl::convolution_forward::primitive_desc forward(wanted, attributes, onednn::engine());
  if (result == ConvResult::kOutput) {
    const auto is_brgconv = [&] { return std::string_view(forward.impl_info_str()).starts_with("brgconv"); };
    while (has_small_pixels(s) && is_brgconv() && forward.next_impl()) {
    }
    return {forward.src_desc(),        forward.weights_desc(),         forward.dst_desc(),
            forward.scratchpad_desc(), dnnl::primitive(forward.get()), forward.impl_info_str()};
  }
  if (result == ConvResult::kInput) {
    const dnnl::convolution_backward_data::primitive_desc pd(
        {direct, x, w, y, k.strides, k.dilations, k.before, k.after}, attributes, onednn::engine(), forward);
    return {pd.diff_src_desc(),   pd.weights_desc(),         pd.diff_dst_desc(),
            pd.scratchpad_desc(), dnnl::primitive(pd.get()), pd.impl_info_str()};
  }
  const dnnl::convolution_backward_weights::primitive_desc pd(
      {direct, x, w, y, k.strides, k.dilations, k.before, k.after}, attributes, onednn::engine(), forward);
  return {pd.src_desc(),        pd.diff_weights_desc(),    pd.diff_dst_desc(),
          pd.scratchpad_desc(), dnnl::primitive(pd.get()), pd.impl_info_str()};
}

// One array of a convolution: how the caller has it, how oneDNN wants it, and the way between, if they differ.
class Operand {
 public:
  Operand(int argument, memory::desc given, memory::desc wanted, bool is_result)
      : argument_(argument), given_(std::move(given)), wanted_(std::move(wanted)), is_result_(is_result) {
    if (given_ == wanted_) return;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const memory::desc& from = is_result ? wanted_ : given_;
    const memory::desc& to = is_result ? given_ : wanted_;
    const dnnl::reorder::primitive_desc pd(onednn::engine(), from, onednn::engine(), to, attributes);
    reorder_scratch_ = pd.scratchpad_desc();
    reorder_.emplace(pd);
  }

  int argument() const { return argument_; }
  std::size_t room_bytes() const { return reorder_ ? wanted_.get_size() : 0; }
  std::size_t scratch_bytes() const { return reorder_ ? reorder_scratch_.get_size() : 0; }

  // The memory that the convolution uses: the caller's, or `room`, filled if it is read.
  memory bind(void* data, void* room, void* scratch) const {
    if (!reorder_) return memory(wanted_, onednn::engine(), data);
    memory inner(wanted_, onednn::engine(), room);
    if (!is_result_) reorder(memory(given_, onednn::engine(), data), inner, scratch);
    return inner;
  }
  // After the convolution: the result where the caller wants it.
  void finish(void* data, const memory& inner, void* scratch) const {
    if (reorder_ && is_result_) reorder(inner, memory(given_, onednn::engine(), data), scratch);
  }

 private:
  void reorder(const memory& from, const memory& to, void* scratch) const {
    reorder_->execute(onednn::stream(), {{DNNL_ARG_FROM, from},
                                         {DNNL_ARG_TO, to},
                                         {DNNL_ARG_SCRATCHPAD, memory(reorder_scratch_, onednn::engine(), scratch)}});
  }

  const int argument_;
  const memory::desc given_;
  const memory::desc wanted_;
  const bool is_result_;
  std::optional<dnnl::reorder> reorder_;
  memory::desc reorder_scratch_;
};

std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Bytes behind its scratch memory that oneDNN writes to. The filter's gradient of strided pixels gathers them there,
// and where channels do not fill its vectors 2.6 takes room for the channels but writes whole vectors, with AVX2 at
// least: up to a vector too many for each place.
std::size_t overrun(ConvResult result, const ConvShape& s) {
  constexpr std::int64_t kVectorFloats = 16;
  const bool gathers = result == ConvResult::kFilter && s.window_elements() == 1;
  return gathers ? static_cast<std::size_t>(s.places() * kVectorFloats) * sizeof(float) : 0;
}

// One compiled convolution. Constant once made.
class CompiledConvolution {
 public:
  CompiledConvolution(ConvResult result, bool biased, const ConvShape& s)
      : shape(s),
        biased_(biased),
        description_(describe(result, biased, s)),
        input_(result == ConvResult::kInput ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, image(s, true, s.channels_first),
               description_.input, result == ConvResult::kInput),
        filter_(result == ConvResult::kFilter ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, plain_filter(s),
                description_.filter, result == ConvResult::kFilter),
        output_(result == ConvResult::kOutput ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, image(s, false, s.channels_first),
                description_.output, result == ConvResult::kOutput) {
    scratch_bytes_ = rounded(description_.scratch.get_size() + overrun(result, s));
    for (const Operand* o : {&input_, &filter_, &output_}) {
      scratch_bytes_ = std::max(scratch_bytes_, rounded(o->scratch_bytes()));
      room_bytes_ += rounded(o->room_bytes());
    }
  }

  Status run(const ConvArrays& arrays, Allocator& allocator) const {
    const std::size_t bytes = scratch_bytes_ + room_bytes_;
    BufferPtr buffer;
    if (bytes > 0) {
      buffer = allocator.allocate(bytes);
      if (!buffer) return resource_exhausted("convolution: no memory for ", bytes, " bytes of scratch");
    }
    char* scratch = buffer ? static_cast<char*>(buffer->data()) : nullptr;
    char* room = scratch + scratch_bytes_;
    const memory input = input_.bind(arrays.input, room, scratch);
    room += rounded(input_.room_bytes());
    const memory filter = filter_.bind(arrays.filter, room, scratch);
    room += rounded(filter_.room_bytes());
    const memory output = output_.bind(arrays.output, room, scratch);
    std::unordered_map<int, memory> arguments{
        {input_.argument(), input},
        {filter_.argument(), filter},
        {output_.argument(), output},
        {DNNL_ARG_SCRATCHPAD, memory(description_.scratch, onednn::engine(), scratch)}};
    if (biased_) {
      arguments.emplace(DNNL_ARG_BIAS, memory(bias_of(shape), onednn::engine(), const_cast<void*>(arrays.bias)));
    }
    description_.primitive.execute(onednn::stream(), arguments);
    input_.finish(arrays.input, input, scratch);
    filter_.finish(arrays.filter, filter, scratch);
    output_.finish(arrays.output, output, scratch);
    return {};
  }

  const ConvShape shape;

 private:
  const bool biased_;
  const Description description_;
  const Operand input_, filter_, output_;
  std::size_t scratch_bytes_ = 0;
  std::size_t room_bytes_ = 0;
};

// Images of the batch that are worth a thread of their own.
int count_pieces(const ConvShape& s, const Team& team) {
  const double work = static_cast<double>(s.output_elements()) * static_cast<double>(s.group_inputs()) *
                      static_cast<double>(s.window_elements());
  const double grain = static_cast<double>(team.grain(kPieceWork));
  const auto most = static_cast<int>(std::min<double>(team.size(), work / grain));
  return static_cast<int>(std::max<std::int64_t>(1, std::min<std::int64_t>(most, s.batch)));
}

// The part of the arrays that images [begin, end) are.
ConvArrays part_of(const ConvShape& s, const ConvArrays& whole, std::int64_t begin) {
  return {static_cast<float*>(whole.input) + s.input_elements() / s.batch * begin, whole.filter,
          static_cast<float*>(whole.output) + s.output_elements() / s.batch * begin, whole.bias};
}

}  // namespace

struct OneDnnConvolutions::State {
  State(ConvResult r, bool b) : result(r), biased(b) {}
  const ConvResult result;
  const bool biased;
  Mutex mu;
  std::vector<std::shared_ptr<const CompiledConvolution>> compiled TUTTI_GUARDED_BY(mu);

  // Compiled by one thread: the pieces of a convolution ask for the same one at the same time.
  std::shared_ptr<const CompiledConvolution> get(const ConvShape& shape) TUTTI_EXCLUDES(mu) {
    MutexLock lock(mu);
    for (const auto& c : compiled) {
      if (c->shape == shape) return c;
    }
    auto made = std::make_shared<const CompiledConvolution>(result, biased, shape);
    if (compiled.size() < kMaxCached) compiled.push_back(made);
    return made;
  }

  // On the calling thread alone.
  Status run(const ConvShape& shape, const ConvArrays& arrays, Allocator& allocator) {
    if (prefers_bands(result, shape)) return banded_convolution(result, shape, arrays, allocator);
    // oneDNN reports what it cannot do or allocate by exceptions; none may leave a kernel.
    try {
      const onednn::StayOnThisThread alone;
      return get(shape)->run(arrays, allocator);
    } catch (const dnnl::error& error) {
      return internal_error("oneDNN failed on the convolution ", shape, ": ", error.what());
    }
  }
};

OneDnnConvolutions::OneDnnConvolutions(ConvResult result, bool biased)
    : state_(std::make_unique<State>(result, biased)) {}
OneDnnConvolutions::~OneDnnConvolutions() = default;

// Each thread takes a part of the batch. Filters' gradients of the parts are added up in order.
Status OneDnnConvolutions::run(const ConvShape& shape, const ConvArrays& arrays, Team& team, Allocator& allocator) {
  const int pieces = count_pieces(shape, team);
  if (pieces == 1) return state_->run(shape, arrays, allocator);
  const bool sums = state_->result == ConvResult::kFilter;
  const std::int64_t filter_size = shape.filter_elements();
  BufferPtr partial;
  if (sums) {
    const std::size_t bytes = static_cast<std::size_t>((pieces - 1) * filter_size) * sizeof(float);
    partial = allocator.allocate(bytes);
    if (!partial) return resource_exhausted("convolution: no memory for ", bytes, " bytes of partial filters");
  }
  std::vector<Status> ended(static_cast<std::size_t>(pieces));
  team.run(pieces, [&](int i) {
    const std::int64_t begin = shape.batch * i / pieces, end = shape.batch * (i + 1) / pieces;
    ConvShape part = shape;
    part.batch = end - begin;
    ConvArrays its = part_of(shape, arrays, begin);
    if (sums && i > 0) its.filter = static_cast<float*>(partial->data()) + (i - 1) * filter_size;
    ended[static_cast<std::size_t>(i)] = state_->run(part, its, allocator);
  });
  for (const Status& status : ended) TUTTI_RETURN_IF_ERROR(status);
  for (int i = 1; sums && i < pieces; ++i) {
    float* sum = static_cast<float*>(arrays.filter);
    const float* more = static_cast<const float*>(partial->data()) + (i - 1) * filter_size;
    for (std::int64_t k = 0; k < filter_size; ++k) sum[k] += more[k];
  }
  return {};
}

std::string OneDnnConvolutions::implementation(ConvResult result, bool biased, const ConvShape& shape) {
  return describe(result, biased, shape).implementation;
}

}  // namespace tutti::cpu::internal
