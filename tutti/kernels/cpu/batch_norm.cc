#include "tutti/kernels/cpu/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

using internal::BatchNormLoops;
using internal::ChannelGradSums;
using internal::ChannelMoments;

// x as [rows, channels] or, channels first, as [batch, channels, plane].
struct Layout {
  bool channels_first = false;
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::int64_t plane = 1;  // elements of one channel in one image
  std::int64_t rows() const { return batch * plane; }
};

// The per-channel numbers of one execution.
using Channels = std::vector<float>;

// What both kernels do with x: statistics and maps by channel, on several threads.
class ChannelWork {
 public:
  ChannelWork(const Layout& layout, Team& team) : l_(layout), team_(team) {}

  std::vector<ChannelMoments> moments(const float* x) const {
    return sums<ChannelMoments>(
        [&](std::int64_t row, std::int64_t rows, float* room, ChannelMoments* to) {
          loops_.row_moments(x + row * l_.channels, rows, l_.channels, room, to);
        },
        [&](std::int64_t, std::int64_t at, ChannelMoments& to) { to.add(loops_.plane_moments(x + at, l_.plane)); },
        [](ChannelMoments& to, const ChannelMoments& from) { to.add(from); });
  }

  std::vector<ChannelGradSums> grad_sums(const float* dy, const float* x, const Channels& mean) const {
    const auto add = [](ChannelGradSums& to, const ChannelGradSums& from) {
      to.grad += from.grad;
      to.product += from.product;
    };
    return sums<ChannelGradSums>(
        [&](std::int64_t row, std::int64_t rows, float* room, ChannelGradSums* to) {
          const std::int64_t at = row * l_.channels;
          loops_.row_grad_sums(dy + at, x + at, rows, l_.channels, mean.data(), room, to);
        },
        [&](std::int64_t c, std::int64_t at, ChannelGradSums& to) {
          add(to, loops_.plane_grad_sums(dy + at, x + at, l_.plane, mean[static_cast<std::size_t>(c)]));
        },
        add);
  }

  void normalise(const float* x, const Channels& mean, const Channels& factor, const float* offset, float* y) const {
    each_part(
        [&](std::int64_t row, std::int64_t rows) {
          const std::int64_t at = row * l_.channels;
          loops_.normalise_rows(x + at, rows, l_.channels, mean.data(), factor.data(), offset, y + at);
        },
        [&](std::size_t c, std::int64_t at) {
          loops_.normalise_plane(x + at, l_.plane, mean[c], factor[c], offset[c], y + at);
        });
  }

  void backward(const float* dy, const float* x, const Channels& mean, const Channels& factor, const Channels& shift,
                const Channels& slope, float* dx) const {
    each_part(
        [&](std::int64_t row, std::int64_t rows) {
          const std::int64_t at = row * l_.channels;
          loops_.grad_rows(dy + at, x + at, rows, l_.channels, mean.data(), factor.data(), shift.data(), slope.data(),
                           dx + at);
        },
        [&](std::size_t c, std::int64_t at) {
          loops_.grad_plane(dy + at, x + at, l_.plane, mean[c], factor[c], shift[c], slope[c], dx + at);
        });
  }

 private:
  std::int64_t row_grain() const { return std::max<std::int64_t>(1, kElementGrain / l_.channels); }
  std::int64_t plane_grain() const { return std::max<std::int64_t>(1, kElementGrain / l_.plane); }
  std::int64_t channel_grain() const { return std::max<std::int64_t>(1, kElementGrain / l_.rows()); }

  // Threads take rows, each with sums of its own that are put together in order; or, channels first, whole channels.
  template <typename Sums, typename Rows, typename Plane, typename Add>
  std::vector<Sums> sums(const Rows& rows, const Plane& plane, const Add& add) const {
    const std::size_t channels = static_cast<std::size_t>(l_.channels);
    std::vector<Sums> total(channels);
    if (l_.channels_first) {
      parallel_for(team_, l_.channels, channel_grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c) {
          for (std::int64_t n = 0; n < l_.batch; ++n) {
            plane(c, (n * l_.channels + c) * l_.plane, total[static_cast<std::size_t>(c)]);
          }
        }
      });
      return total;
    }
    const int pieces = parallel_pieces(team_, l_.rows(), row_grain());
    std::vector<Sums> parts(channels * static_cast<std::size_t>(pieces));
    std::vector<float> room(channels * static_cast<std::size_t>(internal::kRoomPerChannel * pieces));
    parallel_ranges(team_, l_.rows(), row_grain(), [&](int piece, std::int64_t begin, std::int64_t end) {
      const std::size_t first = channels * static_cast<std::size_t>(piece);
      rows(begin, end - begin, room.data() + first * internal::kRoomPerChannel, parts.data() + first);
    });
    for (std::size_t i = 0; i < parts.size(); ++i) add(total[i % channels], parts[i]);
    return total;
  }

  template <typename Rows, typename Plane>
  void each_part(const Rows& rows, const Plane& plane) const {
    if (!l_.channels_first) {
      parallel_for(team_, l_.rows(), row_grain(),
                   [&](std::int64_t begin, std::int64_t end) { rows(begin, end - begin); });
      return;
    }
    parallel_for(team_, l_.batch * l_.channels, plane_grain(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) plane(static_cast<std::size_t>(i % l_.channels), i * l_.plane);
    });
  }

  const Layout& l_;
  Team& team_;
  const BatchNormLoops loops_ = internal::find_batch_norm_loops();
};

// What the two kernels share: attributes and the checks of shapes.
class BatchNorm {
 public:
  explicit BatchNorm(const KernelInit& init)
      : name(init.op), epsilon(init.attr<float>("epsilon")), is_training(init.attr<bool>("is_training")) {
    const std::string& format = init.attr<std::string>("data_format");
    channels_first_ = format == "NCHW" || format == "NCDHW";
    rank_ = format.size() == 5 ? 5 : 4;
  }

  Result<Layout> layout(const Shape& x) const {
    // As TensorFlow does: the default format is taken for images and volumes alike.
    if (x.rank() != 4 && x.rank() != 5) {
      return invalid_argument(name, ": input must be 4 or 5-dimensional, got ", x);
    }
    if (rank_ == 5 && x.rank() != 5) return invalid_argument(name, ": input must be 5-dimensional, got ", x);
    Layout l{.channels_first = channels_first_, .batch = x.dim(0)};
    l.channels = x.dim(channels_first_ ? 1 : x.rank() - 1);
    if (x.num_elements() > 0 && l.channels > 0) l.plane = x.num_elements() / l.batch / l.channels;
    return l;
  }

  Status check_vector(std::string_view what, const Tensor& t, std::int64_t channels) const {
    if (t.rank() != 1) return invalid_argument(name, ": ", what, " must be 1-dimensional, got ", t.shape());
    if (t.dim(0) == channels) return {};
    return invalid_argument(name, ": ", what, " must have the same number of elements as the channels of x, got ",
                            t.dim(0), " and ", channels);
  }

  const std::string name;
  const float epsilon;
  const bool is_training;

 private:
  bool channels_first_ = false;
  int rank_ = 4;
};

// A vector of one number per channel, in float whatever its dtype.
Result<Tensor> floats(KernelContext& context, int input) {
  return widened(context, context.input(input), DType::kFloat);
}

void put(Tensor& to, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float value = static_cast<float>(values[i]);
    if (to.dtype() == DType::kBfloat16) {
      to.data<Bfloat16>()[i] = Bfloat16(value);
    } else {
      to.data<float>()[i] = value;
    }
  }
}

Status put_output(KernelContext& context, int i, const std::vector<double>& values) {
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(i, Shape{static_cast<std::int64_t>(values.size())}));
  put(*out, values);
  return {};
}

class BatchNormKernel : public Kernel {
 public:
  explicit BatchNormKernel(const KernelInit& init)
      : norm_(init), average_factor_(static_cast<double>(init.attr<float>("exponential_avg_factor"))) {}

  Status compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    TUTTI_ASSIGN_OR_RETURN(Layout layout, norm_.layout(x.shape()));
    TUTTI_RETURN_IF_ERROR(check(context, layout));
    TUTTI_ASSIGN_OR_RETURN(Tensor * y, context.allocate_output(0, x.shape()));
    if (context.num_outputs() > 5) {
      TUTTI_ASSIGN_OR_RETURN(Tensor * scratch, context.allocate_output(5, Shape{}));
      put(*scratch, {0});
    }
    if (x.num_elements() == 0) return no_elements(context, layout.channels);
    TUTTI_ASSIGN_OR_RETURN(Tensor wide, widened(context, x, DType::kFloat));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, *y, DType::kFloat));
    const ChannelWork work(layout, context.team());
    Statistics s;
    if (norm_.is_training) {
      TUTTI_ASSIGN_OR_RETURN(s, batch_statistics(context, work, wide));
    } else {
      TUTTI_ASSIGN_OR_RETURN(s, given_statistics(context));
    }
    TUTTI_RETURN_IF_ERROR(normalise(context, work, s, wide, to));
    narrow_into(to, *y);
    return {};
  }

 private:
  struct Statistics {
    std::vector<double> mean, variance;
  };

  Status check(KernelContext& context, const Layout& layout) const {
    TUTTI_RETURN_IF_ERROR(norm_.check_vector("scale", context.input(1), layout.channels));
    TUTTI_RETURN_IF_ERROR(norm_.check_vector("offset", context.input(2), layout.channels));
    const bool averaged = norm_.is_training && average_factor_ != 1;
    const char* const when = averaged ? "When exponential_avg_factor != 1, " : "When is_training=false, ";
    for (int i : {3, 4}) {
      const std::string what = str_cat(averaged || !norm_.is_training ? when : "", i == 3 ? "mean" : "variance");
      // In training they are looked at only where an average is kept.
      if (norm_.is_training && !averaged) {
        if (context.input(i).rank() == 1) continue;
        return invalid_argument(norm_.name, ": ", what, " must be 1-dimensional, got ", context.input(i).shape());
      }
      TUTTI_RETURN_IF_ERROR(norm_.check_vector(what, context.input(i), layout.channels));
    }
    return {};
  }

  // TensorFlow gives NaN for the statistics of nothing.
  static Status no_elements(KernelContext& context, std::int64_t channels) {
    const std::size_t n = static_cast<std::size_t>(channels);
    for (int i : {1, 2}) {
      TUTTI_RETURN_IF_ERROR(put_output(context, i, std::vector<double>(n, std::numeric_limits<double>::quiet_NaN())));
    }
    for (int i : {3, 4}) TUTTI_RETURN_IF_ERROR(put_output(context, i, std::vector<double>(n, 0)));
    return {};
  }

  // Of the batch; sets the outputs that carry them.
  Result<Statistics> batch_statistics(KernelContext& context, const ChannelWork& work, const Tensor& x) const {
    Statistics s;
    std::vector<double> running_mean, running_variance;
    TUTTI_ASSIGN_OR_RETURN(Tensor old_mean, floats(context, 3));
    TUTTI_ASSIGN_OR_RETURN(Tensor old_variance, floats(context, 4));
    const double kept = 1 - average_factor_;
    std::size_t c = 0;
    for (const ChannelMoments& m : work.moments(x.data<float>())) {
      s.mean.push_back(m.mean);
      s.variance.push_back(m.squares / m.count);
      const double unbiased = m.squares / std::max(m.count - 1, 1.0);
      running_mean.push_back(kept == 0 ? m.mean : kept * old_mean.data<float>()[c] + average_factor_ * m.mean);
      running_variance.push_back(kept == 0 ? unbiased
                                           : kept * old_variance.data<float>()[c] + average_factor_ * unbiased);
      ++c;
    }
    TUTTI_RETURN_IF_ERROR(put_output(context, 1, running_mean));
    TUTTI_RETURN_IF_ERROR(put_output(context, 2, running_variance));
    TUTTI_RETURN_IF_ERROR(put_output(context, 3, s.mean));
    TUTTI_RETURN_IF_ERROR(put_output(context, 4, s.variance));
    return s;
  }

  static Result<Statistics> given_statistics(KernelContext& context) {
    Statistics s;
    TUTTI_ASSIGN_OR_RETURN(Tensor mean, floats(context, 3));
    TUTTI_ASSIGN_OR_RETURN(Tensor variance, floats(context, 4));
    for (float value : mean.flat<float>()) s.mean.push_back(value);
    for (float value : variance.flat<float>()) s.variance.push_back(value);
    for (int i : {1, 3}) context.set_output(i, context.input(3));
    for (int i : {2, 4}) context.set_output(i, context.input(4));
    return s;
  }

  Status normalise(KernelContext& context, const ChannelWork& work, const Statistics& s, const Tensor& x,
                   Tensor& y) const {
    TUTTI_ASSIGN_OR_RETURN(Tensor scale, floats(context, 1));
    TUTTI_ASSIGN_OR_RETURN(Tensor offset, floats(context, 2));
    Channels mean, factor;
    for (std::size_t c = 0; c < s.mean.size(); ++c) {
      mean.push_back(static_cast<float>(s.mean[c]));
      factor.push_back(
          static_cast<float>(scale.data<float>()[c] / std::sqrt(s.variance[c] + static_cast<double>(norm_.epsilon))));
    }
    work.normalise(x.data<float>(), mean, factor, offset.data<float>(), y.data<float>());
    return {};
  }

  const BatchNorm norm_;
  const double average_factor_;
};

class BatchNormGradKernel : public Kernel {
 public:
  explicit BatchNormGradKernel(const KernelInit& init) : norm_(init) {}

  Status compute(KernelContext& context) override {
    const Tensor& dy = context.input(0);
    const Tensor& x = context.input(1);
    TUTTI_ASSIGN_OR_RETURN(Layout layout, norm_.layout(x.shape()));
    TUTTI_RETURN_IF_ERROR(check(context, layout));
    TUTTI_ASSIGN_OR_RETURN(Tensor * dx, context.allocate_output(0, x.shape()));
    for (int i : {3, 4}) TUTTI_RETURN_IF_ERROR(put_output(context, i, {}));
    if (x.num_elements() == 0) {
      const std::vector<double> zeros(static_cast<std::size_t>(layout.channels), 0);
      for (int i : {1, 2}) TUTTI_RETURN_IF_ERROR(put_output(context, i, zeros));
      return {};
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor slopes, widened(context, dy, DType::kFloat));
    TUTTI_ASSIGN_OR_RETURN(Tensor values, widened(context, x, DType::kFloat));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, *dx, DType::kFloat));
    TUTTI_RETURN_IF_ERROR(differentiate(context, layout, slopes, values, to));
    narrow_into(to, *dx);
    return {};
  }

 private:
  Status check(KernelContext& context, const Layout& layout) const {
    if (context.input(0).shape() != context.input(1).shape()) {
      return invalid_argument(norm_.name, ": x and y_backprop must have same shape, but x has shape ",
                              context.input(1).shape(), " and y_backprop has shape ", context.input(0).shape());
    }
    TUTTI_RETURN_IF_ERROR(norm_.check_vector("scale", context.input(2), layout.channels));
    TUTTI_RETURN_IF_ERROR(norm_.check_vector("saved mean", context.input(3), layout.channels));
    return norm_.check_vector("saved variance", context.input(4), layout.channels);
  }

  Status differentiate(KernelContext& context, const Layout& layout, const Tensor& dy, const Tensor& x,
                       Tensor& dx) const {
    TUTTI_ASSIGN_OR_RETURN(Tensor scale, floats(context, 2));
    TUTTI_ASSIGN_OR_RETURN(Tensor saved_mean, floats(context, 3));
    TUTTI_ASSIGN_OR_RETURN(Tensor saved_variance, floats(context, 4));
    const Channels mean(saved_mean.data<float>(), saved_mean.data<float>() + layout.channels);
    const ChannelWork work(layout, context.team());
    const std::vector<ChannelGradSums> sums = work.grad_sums(dy.data<float>(), x.data<float>(), mean);
    Channels factor, shift, slope;
    std::vector<double> scale_grad, offset_grad;
    // With statistics from elsewhere x has no influence on them: the terms that carry it fall away.
    const double share = norm_.is_training ? 1 / static_cast<double>(layout.rows()) : 0;
    for (std::size_t c = 0; c < sums.size(); ++c) {
      const double spread = static_cast<double>(saved_variance.data<float>()[c]) + static_cast<double>(norm_.epsilon);
      const double inverse = 1 / std::sqrt(spread);
      factor.push_back(static_cast<float>(static_cast<double>(scale.data<float>()[c]) * inverse));
      shift.push_back(static_cast<float>(sums[c].grad * share));
      slope.push_back(static_cast<float>(sums[c].product * share / spread));
      scale_grad.push_back(sums[c].product * inverse);
      offset_grad.push_back(sums[c].grad);
    }
    TUTTI_RETURN_IF_ERROR(put_output(context, 1, scale_grad));
    TUTTI_RETURN_IF_ERROR(put_output(context, 2, offset_grad));
    work.backward(dy.data<float>(), x.data<float>(), mean, factor, shift, slope, dx.data<float>());
    return {};
  }

  const BatchNorm norm_;
};

}  // namespace

KernelFactory batch_norm_kernel() { return kernel_of<BatchNormKernel>(); }
KernelFactory batch_norm_grad_kernel() { return kernel_of<BatchNormGradKernel>(); }

}  // namespace tutti::cpu
