#include "tutti/kernels/ref/windows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tutti/kernels/ref/numbers.h"

namespace tutti::ref {
namespace {

using Index = std::int64_t;
using List = std::vector<Index>;

List integers(const Tensor& t) {
  List list;
  for (Integer value : load<Integer>(t)) list.push_back(static_cast<Index>(value));
  return list;
}

// One dimension under a window, by the definition of each padding.
struct Axis {
  Index in = 0, out = 0, kernel = 1, stride = 1, dilation = 1, before = 0;
  // The input position under element k of window o; -1 on padding.
  Index at(Index o, Index k) const {
    const Index i = o * stride - before + k * dilation;
    return i >= 0 && i < in ? i : -1;
  }
};

// An image tensor whose dimensions are named.
struct Geometry {
  bool channels_first = false;
  Axis rows, columns;
  Index batch = 0, channels = 0;

  static Index position(bool first, Index n, Index r, Index c, Index ch, Index rows, Index columns, Index channels) {
    return first ? ((n * channels + ch) * rows + r) * columns + c : ((n * rows + r) * columns + c) * channels + ch;
  }
  Index input(Index n, Index r, Index c, Index ch) const {
    return position(channels_first, n, r, c, ch, rows.in, columns.in, channels);
  }
  Index output(Index n, Index r, Index c, Index ch, Index out_channels) const {
    return position(channels_first, n, r, c, ch, rows.out, columns.out, out_channels);
  }
  Shape output_shape(Index out_channels) const {
    return channels_first ? Shape{batch, out_channels, rows.out, columns.out}
                          : Shape{batch, rows.out, columns.out, out_channels};
  }
};

Result<Geometry> geometry(const AttrMap& attrs, const Shape& input, Index kernel_rows, Index kernel_columns,
                          const List& strides) {
  if (input.rank() != 4 || strides.size() != 4) return invalid_argument("ranks");
  Geometry g;
  g.channels_first = attr_or(attrs, "data_format", std::string("NHWC")) == "NCHW";
  const std::string padding = attr_or(attrs, "padding", std::string("VALID"));
  const List dilations = attr_or(attrs, "dilations", List{1, 1, 1, 1});
  const List pads = attr_or(attrs, "explicit_paddings", List{});
  g.batch = input.dim(0);
  g.channels = input.dim(g.channels_first ? 1 : 3);
  for (int i = 0; i < 2; ++i) {
    const std::size_t d = static_cast<std::size_t>((g.channels_first ? 2 : 1) + i);
    Axis& axis = i == 0 ? g.rows : g.columns;
    axis.in = input.dim(static_cast<int>(d));
    axis.kernel = i == 0 ? kernel_rows : kernel_columns;
    axis.stride = strides[d];
    axis.dilation = dilations[d];
    if (axis.kernel < 1) return invalid_argument("an empty window");
    const Index reach = (axis.kernel - 1) * axis.dilation + 1;
    Index total = 0;
    if (padding == "SAME") {
      axis.out = (axis.in + axis.stride - 1) / axis.stride;
      total = std::max<Index>(0, (axis.out - 1) * axis.stride + reach - axis.in);
      axis.before = total / 2;
      continue;
    }
    if (padding == "EXPLICIT") {
      if (pads.size() != 8) return invalid_argument("paddings");
      axis.before = pads[2 * d];
      total = pads[2 * d] + pads[2 * d + 1];
    }
    // Rounded towards zero: a window that is too large by less than a stride fits nowhere, which is no error.
    axis.out = (axis.in + total - reach + axis.stride) / axis.stride;
    if (axis.out < 0) return invalid_argument("the window is too large");
  }
  return g;
}

// --- Convolutions: every product of an input, a filter and an output element that belong together. ---

struct Conv {
  Geometry g;
  Index group_inputs = 0, outputs = 0, group_outputs = 0;

  static Result<Conv> create(const AttrMap& attrs, const Shape& input, const Shape& filter, bool depthwise) {
    if (input.rank() != 4 || filter.rank() != 4) return invalid_argument("ranks");
    TUTTI_ASSIGN_OR_RETURN(Geometry g,
                           geometry(attrs, input, filter.dim(0), filter.dim(1), attr_or(attrs, "strides", List{})));
    Conv c{.g = g};
    if (depthwise) {
      if (filter.dim(2) != g.channels) return invalid_argument("channels");
      c.group_inputs = 1;
      c.group_outputs = filter.dim(3);
      c.outputs = filter.dim(3) * g.channels;
      return c;
    }
    if (filter.dim(2) == 0 || g.channels % filter.dim(2) != 0) return invalid_argument("channels");
    c.group_inputs = filter.dim(2);
    c.outputs = filter.dim(3);
    const Index groups = g.channels / filter.dim(2);
    if (groups == 0 || c.outputs % groups != 0) return invalid_argument("groups");
    c.group_outputs = c.outputs / groups;
    return c;
  }

  // fn(input, filter, output)
  template <typename Fn>
  void for_products(const Fn& fn) const {
    for (Index n = 0; n < g.batch; ++n)
      for (Index r = 0; r < g.rows.out; ++r)
        for (Index c = 0; c < g.columns.out; ++c)
          for (Index o = 0; o < outputs; ++o)
            for (Index kr = 0; kr < g.rows.kernel; ++kr)
              for (Index kc = 0; kc < g.columns.kernel; ++kc)
                for (Index i = 0; i < group_inputs; ++i) {
                  const Index row = g.rows.at(r, kr), column = g.columns.at(c, kc);
                  if (row < 0 || column < 0) continue;
                  fn(g.input(n, row, column, o / group_outputs * group_inputs + i),
                     ((kr * g.columns.kernel + kc) * group_inputs + i) * outputs + o, g.output(n, r, c, o, outputs));
                }
  }
};

// Which of the three arrays comes out; the others are inputs, or their shapes are.
enum class Wanted { kOutput, kInput, kFilter };

ReferenceFn conv_reference(Wanted wanted, bool depthwise) {
  return [=](const AttrMap& attrs, const Tensors& in) -> Result<Tensors> {
    Shape input = in[0].shape(), filter = in[1].shape();
    if (wanted == Wanted::kInput) {
      const List sizes = integers(in[0]);
      input = Shape(sizes);
    }
    if (wanted == Wanted::kFilter) {
      const List sizes = integers(in[1]);
      filter = Shape(sizes);
    }
    TUTTI_ASSIGN_OR_RETURN(Conv conv, Conv::create(attrs, input, filter, depthwise));
    const Shape output = conv.g.output_shape(conv.outputs);
    if (wanted != Wanted::kOutput && in[2].shape() != output) return invalid_argument("out_backprop");
    const DType dtype = in.back().dtype();
    return with_wide(dtype, [&](auto wide) -> Tensors {
      using W = decltype(wide);
      const auto values = [&](bool is_result, const Tensor& t, const Shape& s) {
        return is_result ? std::vector<W>(static_cast<std::size_t>(s.num_elements()), W(0)) : load<W>(t);
      };
      std::vector<W> x = values(wanted == Wanted::kInput, in[0], input);
      std::vector<W> w = values(wanted == Wanted::kFilter, in[1], filter);
      std::vector<W> y = values(wanted == Wanted::kOutput, in.back(), output);
      conv.for_products([&](Index xi, Index wi, Index yi) {
        if (wanted == Wanted::kOutput) y[yi] += x[xi] * w[wi];
        if (wanted == Wanted::kInput) x[xi] += w[wi] * y[yi];
        if (wanted == Wanted::kFilter) w[wi] += x[xi] * y[yi];
      });
      if (wanted == Wanted::kOutput) return {store(dtype, output, y)};
      if (wanted == Wanted::kInput) return {store(dtype, input, x)};
      return {store(dtype, filter, w)};
    });
  };
}

// --- Pools: each window as a list of positions. ---

struct Pool {
  Geometry g;
  Index depth = 1;  // neighbouring channels pooled together

  static Result<Pool> create(const AttrMap& attrs, const Shape& input, const Tensors& in, std::size_t v2_from) {
    const List ksize = in.size() > v2_from ? integers(in[v2_from]) : attr_or(attrs, "ksize", List{});
    const List strides = in.size() > v2_from ? integers(in[v2_from + 1]) : attr_or(attrs, "strides", List{});
    const bool first = attr_or(attrs, "data_format", std::string("NHWC")) == "NCHW";
    if (ksize.size() != 4) return invalid_argument("ksize");
    Pool pool;
    TUTTI_ASSIGN_OR_RETURN(pool.g, geometry(attrs, input, ksize[first ? 2 : 1], ksize[first ? 3 : 2], strides));
    pool.depth = ksize[first ? 1 : 3];
    return pool;
  }

  Index pooled_channels() const { return g.channels / depth; }
  Shape shape() const { return g.output_shape(pooled_channels()); }

  // fn(output position, input positions in order)
  template <typename Fn>
  void for_windows(const Fn& fn) const {
    for (Index n = 0; n < g.batch; ++n)
      for (Index r = 0; r < g.rows.out; ++r)
        for (Index c = 0; c < g.columns.out; ++c)
          for (Index ch = 0; ch < pooled_channels(); ++ch) {
            std::vector<Index> window;
            for (Index kr = 0; kr < g.rows.kernel; ++kr)
              for (Index kc = 0; kc < g.columns.kernel; ++kc)
                for (Index k = 0; k < depth; ++k) {
                  const Index row = g.rows.at(r, kr), column = g.columns.at(c, kc);
                  if (row >= 0 && column >= 0) window.push_back(g.input(n, row, column, ch * depth + k));
                }
            fn(g.output(n, r, c, ch, pooled_channels()), window);
          }
  }
};

template <typename W>
Index first_largest(const std::vector<W>& x, const std::vector<Index>& window) {
  if constexpr (!std::is_same_v<W, Complex>) {
    return *std::max_element(window.begin(), window.end(), [&](Index a, Index b) { return x[a] < x[b]; });
  } else {
    return window[0];
  }
}

Result<Tensors> max_pool(const AttrMap& attrs, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Pool pool, Pool::create(attrs, in[0].shape(), in, 1));
  return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
    using W = decltype(wide);
    const std::vector<W> x = load<W>(in[0]);
    std::vector<W> y(static_cast<std::size_t>(pool.shape().num_elements()));
    pool.for_windows([&](Index to, const std::vector<Index>& window) { y[to] = x[first_largest(x, window)]; });
    return {store(in[0].dtype(), pool.shape(), y)};
  });
}

ReferenceFn max_pool_grad(bool second) {
  return [second](const AttrMap& attrs, const Tensors& in) -> Result<Tensors> {
    TUTTI_ASSIGN_OR_RETURN(Pool pool, Pool::create(attrs, in[0].shape(), in, 3));
    if (in[1].shape() != pool.shape()) return invalid_argument("orig_output");
    if (in[2].shape() != (second ? in[0].shape() : pool.shape())) return invalid_argument("grad");
    const Shape shape = second ? pool.shape() : in[0].shape();
    return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
      using W = decltype(wide);
      const std::vector<W> x = load<W>(in[0]), grad = load<W>(in[2]);
      std::vector<W> out(static_cast<std::size_t>(shape.num_elements()), W(0));
      pool.for_windows([&](Index to, const std::vector<Index>& window) {
        const Index at = first_largest(x, window);
        if (second) {
          out[to] = grad[at];
        } else {
          out[at] += grad[to];
        }
      });
      return {store(in[0].dtype(), shape, out)};
    });
  };
}

// Positions within an image, or within the batch.
Index batch_offset(const AttrMap& attrs, const Shape& input, Index position) {
  if (attr_or(attrs, "include_batch_in_index", false)) return 0;
  const Index image = input.num_elements() / input.dim(0);
  return position / image * image;
}

Result<Tensors> max_pool_with_argmax(const AttrMap& attrs, const Tensors& in) {
  if (in[0].num_elements() == 0) return invalid_argument("no maximum of nothing");
  TUTTI_ASSIGN_OR_RETURN(Pool pool, Pool::create(attrs, in[0].shape(), in, 1));
  TUTTI_ASSIGN_OR_RETURN(Tensors out, max_pool(attrs, in));
  return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
    using W = decltype(wide);
    const std::vector<W> x = load<W>(in[0]);
    std::vector<Integer> places(static_cast<std::size_t>(pool.shape().num_elements()));
    pool.for_windows([&](Index to, const std::vector<Index>& window) {
      const Index at = first_largest(x, window);
      places[to] = at - batch_offset(attrs, in[0].shape(), at);
    });
    return {out[0], store(attr_or(attrs, "Targmax", DType::kInt64), pool.shape(), places)};
  });
}

ReferenceFn by_argmax(bool gather) {
  return [gather](const AttrMap& attrs, const Tensors& in) -> Result<Tensors> {
    TUTTI_ASSIGN_OR_RETURN(Pool pool, Pool::create(attrs, in[0].shape(), in, 3));
    if (in[2].shape() != pool.shape()) return invalid_argument("argmax");
    if (in[1].shape() != (gather ? in[0].shape() : pool.shape())) return invalid_argument("grad");
    const List places = integers(in[2]);
    const Shape shape = gather ? pool.shape() : in[0].shape();
    return with_wide(in[1].dtype(), [&](auto wide) -> Tensors {
      using W = decltype(wide);
      const std::vector<W> grad = load<W>(in[1]);
      std::vector<W> out(static_cast<std::size_t>(shape.num_elements()), W(0));
      pool.for_windows([&](Index to, const std::vector<Index>& window) {
        const Index at = places[static_cast<std::size_t>(to)] + batch_offset(attrs, in[0].shape(), window[0]);
        if (gather) {
          out[to] = grad[at];
        } else {
          out[at] += grad[to];
        }
      });
      return {store(in[1].dtype(), shape, out)};
    });
  };
}

Result<Tensors> avg_pool(const AttrMap& attrs, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Pool pool, Pool::create(attrs, in[0].shape(), in, 1));
  const std::vector<double> x = load<double>(in[0]);
  std::vector<double> y(static_cast<std::size_t>(pool.shape().num_elements()), 0);
  pool.for_windows([&](Index to, const std::vector<Index>& window) {
    for (Index at : window) y[to] += x[at] / static_cast<double>(window.size());
  });
  return Tensors{store(in[0].dtype(), pool.shape(), y)};
}

Result<Tensors> avg_pool_grad(const AttrMap& attrs, const Tensors& in) {
  const List sizes = integers(in[0]);
  TUTTI_ASSIGN_OR_RETURN(Pool pool, Pool::create(attrs, Shape(sizes), in, 2));
  if (in[1].shape() != pool.shape()) return invalid_argument("grad");
  const std::vector<double> grad = load<double>(in[1]);
  std::vector<double> out(static_cast<std::size_t>(Shape(sizes).num_elements()), 0);
  pool.for_windows([&](Index from, const std::vector<Index>& window) {
    for (Index at : window) out[at] += grad[from] / static_cast<double>(window.size());
  });
  return Tensors{store(in[1].dtype(), Shape(sizes), out)};
}

// --- Normalisations. ---

// Positions of each channel.
std::vector<std::vector<std::size_t>> by_channel(const AttrMap& attrs, const Tensor& x) {
  const int axis = channel_axis(attrs, x);
  std::vector<std::vector<std::size_t>> positions(static_cast<std::size_t>(x.dim(axis)));
  std::size_t i = 0;
  for (const auto& at : coordinates(x.shape())) positions[static_cast<std::size_t>(at[axis])].push_back(i++);
  return positions;
}

ReferenceFn batch_norm(int outputs) {
  return [outputs](const AttrMap& attrs, const Tensors& in) -> Result<Tensors> {
    if (in[0].rank() != 4 && in[0].rank() != 5) return invalid_argument("rank");
    const auto channels = by_channel(attrs, in[0]);
    const bool training = attr_or(attrs, "is_training", true);
    const double factor = static_cast<double>(attr_or(attrs, "exponential_avg_factor", 1.0f));
    for (std::size_t i = 1; i < (training && factor == 1 ? 3 : 5); ++i) {
      if (in[i].num_elements() != static_cast<Index>(channels.size())) return invalid_argument("channels");
    }
    const double epsilon = static_cast<double>(attr_or(attrs, "epsilon", 0.0001f));
    const std::vector<double> x = load<double>(in[0]), scale = load<double>(in[1]), offset = load<double>(in[2]);
    const std::vector<double> old_mean = load<double>(in[3]), old_variance = load<double>(in[4]);
    std::vector<double> y(x.size()), mean_out, variance_out, mean_saved, variance_saved;
    for (std::size_t c = 0; c < channels.size(); ++c) {
      const double n = static_cast<double>(channels[c].size());
      double mean = 0, square = 0;
      for (std::size_t i : channels[c]) mean += x[i] / n;
      for (std::size_t i : channels[c]) square += (x[i] - mean) * (x[i] - mean);
      double variance = square / n;
      if (n == 0) mean = variance = std::numeric_limits<double>::quiet_NaN();
      if (!training && n > 0) {
        mean = old_mean[c];
        variance = old_variance[c];
      }
      const double unbiased = n == 0 ? variance : square / std::max(n - 1, 1.0);
      const bool average = training && factor != 1;
      mean_out.push_back(average ? (1 - factor) * old_mean[c] + factor * mean : mean);
      variance_out.push_back(average    ? (1 - factor) * old_variance[c] + factor * unbiased
                             : training ? unbiased
                                        : variance);
      mean_saved.push_back(n == 0 ? 0 : mean);
      variance_saved.push_back(n == 0 ? 0 : variance);
      for (std::size_t i : channels[c]) y[i] = (x[i] - mean) / std::sqrt(variance + epsilon) * scale[c] + offset[c];
    }
    const Shape vector{static_cast<Index>(channels.size())};
    const DType u = in[1].dtype();
    Tensors out{store(in[0].dtype(), in[0].shape(), y), store(u, vector, mean_out), store(u, vector, variance_out),
                store(u, vector, mean_saved), store(u, vector, variance_saved)};
    if (outputs > 5) out.push_back(store(u, Shape{}, std::vector<double>{0}));
    return out;
  };
}

Result<Tensors> batch_norm_grad(const AttrMap& attrs, const Tensors& in) {
  if (in[0].shape() != in[1].shape()) return invalid_argument("y_backprop");
  const auto channels = by_channel(attrs, in[1]);
  for (std::size_t i = 2; i < 5; ++i) {
    if (in[i].num_elements() != static_cast<Index>(channels.size())) return invalid_argument("channels");
  }
  const bool training = attr_or(attrs, "is_training", true);
  const double epsilon = static_cast<double>(attr_or(attrs, "epsilon", 0.0001f));
  const std::vector<double> dy = load<double>(in[0]), x = load<double>(in[1]), scale = load<double>(in[2]);
  const std::vector<double> mean = load<double>(in[3]), variance = load<double>(in[4]);
  std::vector<double> dx(x.size()), dscale, doffset;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const double n = static_cast<double>(channels[c].size()), spread = variance[c] + epsilon;
    double sum = 0, product = 0;
    for (std::size_t i : channels[c]) {
      sum += dy[i];
      product += dy[i] * (x[i] - mean[c]);
    }
    for (std::size_t i : channels[c]) {
      const double through = training ? sum / n + (x[i] - mean[c]) * product / n / spread : 0;
      dx[i] = scale[c] / std::sqrt(spread) * (dy[i] - through);
    }
    dscale.push_back(product / std::sqrt(spread));
    doffset.push_back(sum);
  }
  const Shape vector{static_cast<Index>(channels.size())};
  const DType u = in[3].dtype();
  const Tensor nothing = store(u, Shape{0}, std::vector<double>{});
  return Tensors{store(in[1].dtype(), in[1].shape(), dx), store(u, vector, dscale), store(u, vector, doffset), nothing,
                 nothing};
}

ReferenceFn lrn(bool backward) {
  return [backward](const AttrMap& attrs, const Tensors& in) -> Result<Tensors> {
    const Tensor& image = in[backward ? 1 : 0];
    if (image.rank() != 4) return invalid_argument("rank");
    for (const Tensor& t : in) {
      if (t.shape() != image.shape()) return invalid_argument("shapes");
    }
    const Index radius = attr_or(attrs, "depth_radius", Index{5}), n = image.dim(3);
    const double bias = static_cast<double>(attr_or(attrs, "bias", 1.0f));
    const double alpha = static_cast<double>(attr_or(attrs, "alpha", 1.0f));
    const double beta = static_cast<double>(attr_or(attrs, "beta", 0.5f));
    const std::vector<double> x = load<double>(image), dy = load<double>(in[0]);
    std::vector<double> out(x.size(), 0);
    for (Index i = 0; i < static_cast<Index>(x.size()); ++i) {
      const Index pixel = i / n * n;
      const Index begin = std::max(pixel, i - radius), end = std::min(pixel + n, i + radius + 1);
      double level = bias;
      for (Index k = begin; k < end; ++k) level += alpha * x[k] * x[k];
      if (!backward) {
        out[i] = x[i] / std::pow(level, beta);
        continue;
      }
      out[i] += dy[i] / std::pow(level, beta);
      // The output as given, which a caller may have made up.
      const double y = load<double>(in[2])[static_cast<std::size_t>(i)];
      for (Index k = begin; k < end; ++k) out[k] -= 2 * alpha * beta * x[k] * y / level * dy[i];
    }
    return Tensors{store(image.dtype(), image.shape(), out)};
  };
}

}  // namespace

void add_window_references(References& all) {
  for (bool depthwise : {false, true}) {
    const std::string op = depthwise ? "DepthwiseConv2dNative" : "Conv2D";
    all[op] = conv_reference(Wanted::kOutput, depthwise);
    all[op + "BackpropInput"] = conv_reference(Wanted::kInput, depthwise);
    all[op + "BackpropFilter"] = conv_reference(Wanted::kFilter, depthwise);
  }
  for (const char* version : {"", "V2"}) {
    all[std::string("MaxPool") + version] = max_pool;
    all[std::string("MaxPoolGrad") + version] = max_pool_grad(false);
    all[std::string("MaxPoolGradGrad") + version] = max_pool_grad(true);
  }
  all["MaxPoolWithArgmax"] = max_pool_with_argmax;
  all["MaxPoolGradWithArgmax"] = by_argmax(false);
  all["MaxPoolGradGradWithArgmax"] = by_argmax(true);
  all["AvgPool"] = avg_pool;
  all["AvgPoolGrad"] = avg_pool_grad;
  for (const char* version : {"", "V2", "V3"}) {
    all[std::string("FusedBatchNorm") + version] = batch_norm(std::string(version) == "V3" ? 6 : 5);
    all[std::string("FusedBatchNormGrad") + version] = batch_norm_grad;
  }
  all["LRN"] = lrn(false);
  all["LRNGrad"] = lrn(true);
}

}  // namespace tutti::ref
