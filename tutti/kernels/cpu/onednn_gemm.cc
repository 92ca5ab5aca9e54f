// Float products on oneDNN. On one thread its plain gemm is faster than its matmul primitive (by 7 % over the products
// of an MLP step at batch 32, 4 % at 128: AVX-512, measured alternating); on several the primitive is (by 8 %).
#include <omp.h>

#include <algorithm>
#include <array>
#include <dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/kernels/cpu/gemm.h"

namespace tutti::cpu::internal {
namespace {

// Products below this many multiply-adds stay on one thread: waking a second one costs more.
constexpr std::int64_t kParallelWork = 500'000;
// Primitives kept by one kernel. Shapes beyond that are built anew each time.
constexpr std::size_t kMaxCached = 64;

// Constant once made; oneDNN's engines are safe to share.
const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// A stream of the CPU only says where to run; one per thread saves making one per call.
dnnl::stream& thread_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed) {
  // A row or a column lies in memory the same way transposed; oneDNN prefers the plain description.
  if (rows == 1 || columns == 1) transposed = false;
  const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
  return {{rows, columns}, dnnl::memory::data_type::f32, strides};
}

dnnl::matmul::primitive_desc describe(const GemmShape& s) {
  dnnl::primitive_attr attributes;
  // Scratch memory comes from the step, which reuses it; oneDNN's own would be mapped anew.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::desc product(matrix(s.m, s.k, s.transpose_a), matrix(s.k, s.n, s.transpose_b),
                                   matrix(s.m, s.n, false));
  return {product, attributes, cpu_engine()};
}

// What one call at a time may use: memory objects whose addresses are set per call.
struct Execution {
  explicit Execution(const dnnl::matmul::primitive_desc& pd)
      : a(pd.src_desc(), cpu_engine(), DNNL_MEMORY_NONE),
        b(pd.weights_desc(), cpu_engine(), DNNL_MEMORY_NONE),
        c(pd.dst_desc(), cpu_engine(), DNNL_MEMORY_NONE),
        scratch(pd.scratchpad_desc(), cpu_engine(), DNNL_MEMORY_NONE),
        arguments{{{DNNL_ARG_SRC, a.get()},
                   {DNNL_ARG_WEIGHTS, b.get()},
                   {DNNL_ARG_DST, c.get()},
                   {DNNL_ARG_SCRATCHPAD, scratch.get()}}} {}
  dnnl::memory a, b, c, scratch;
  std::array<dnnl_exec_arg_t, 4> arguments;
};

// One compiled product.
class CompiledProduct {
 public:
  CompiledProduct(const GemmShape& s, int num_threads)
      : shape(s), threads(num_threads), pd_(describe(s)), primitive_(pd_) {}

  Status run(const float* a, const float* b, float* c, Allocator& allocator) {
    const std::size_t scratch_bytes = pd_.scratchpad_desc().get_size();
    BufferPtr scratch;
    if (scratch_bytes > 0) {
      scratch = allocator.allocate(scratch_bytes);
      if (!scratch) return resource_exhausted("MatMul: no memory for ", scratch_bytes, " bytes of scratch");
    }
    std::unique_ptr<Execution> execution = take();
    execution->a.set_data_handle(const_cast<float*>(a), thread_stream());
    execution->b.set_data_handle(const_cast<float*>(b), thread_stream());
    execution->c.set_data_handle(c, thread_stream());
    execution->scratch.set_data_handle(scratch ? scratch->data() : nullptr, thread_stream());
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), thread_stream().get(), static_cast<int>(execution->arguments.size()),
                               execution->arguments.data());
    give_back(std::move(execution));
    if (status != dnnl_success) return internal_error("MatMul: oneDNN failed with status ", static_cast<int>(status));
    return {};
  }

  const GemmShape shape;
  const int threads;

 private:
  std::unique_ptr<Execution> take() TUTTI_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      if (!idle_.empty()) {
        std::unique_ptr<Execution> execution = std::move(idle_.back());
        idle_.pop_back();
        return execution;
      }
    }
    return std::make_unique<Execution>(pd_);
  }
  void give_back(std::unique_ptr<Execution> execution) TUTTI_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    idle_.push_back(std::move(execution));
  }

  const dnnl::matmul::primitive_desc pd_;
  const dnnl::matmul primitive_;
  Mutex mu_;
  std::vector<std::unique_ptr<Execution>> idle_ TUTTI_GUARDED_BY(mu_);
};

int threads_for(const GemmShape& s, int threads) {
#if defined(__SANITIZE_THREAD__)
  // libgomp is not instrumented: its barriers would be reported as races.
  return 1;
#endif
  // In double: three dimensions may overflow 64 bits.
  const double work = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  return work < static_cast<double>(kParallelWork) ? 1 : std::max(threads, 1);
}

// The team size is a setting of the calling thread, read when a primitive is made and when it runs.
void set_team_size(int threads) {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

Status run_alone(const GemmShape& s, const float* a, const float* b, float* c) {
  const dnnl_status_t status = dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1.0f, a,
                                          s.transpose_a ? s.m : s.k, b, s.transpose_b ? s.k : s.n, 0.0f, c, s.n);
  if (status != dnnl_success) return internal_error("MatMul: oneDNN failed with status ", static_cast<int>(status));
  return {};
}

}  // namespace

struct OneDnnProducts::State {
  Mutex mu;
  std::vector<std::shared_ptr<CompiledProduct>> products TUTTI_GUARDED_BY(mu);  // most recently made last

  std::shared_ptr<CompiledProduct> find(const GemmShape& shape, int threads) TUTTI_EXCLUDES(mu) {
    MutexLock lock(mu);
    for (const auto& product : products) {
      if (product->shape == shape && product->threads == threads) return product;
    }
    return nullptr;
  }
  void keep(std::shared_ptr<CompiledProduct> product) TUTTI_EXCLUDES(mu) {
    MutexLock lock(mu);
    if (products.size() < kMaxCached) products.push_back(std::move(product));
  }
};

OneDnnProducts::OneDnnProducts() : state_(std::make_unique<State>()) {}
OneDnnProducts::~OneDnnProducts() = default;

Status OneDnnProducts::run(const GemmShape& shape, const float* a, const float* b, float* c, int threads,
                           Allocator& allocator) {
  const int team = threads_for(shape, threads);
  set_team_size(team);
  if (team == 1) return run_alone(shape, a, b, c);
  // oneDNN reports what it cannot do or allocate by exceptions; none may leave a kernel.
  try {
    std::shared_ptr<CompiledProduct> product = state_->find(shape, team);
    if (!product) {
      product = std::make_shared<CompiledProduct>(shape, team);
      state_->keep(product);
    }
    return product->run(a, b, c, allocator);
  } catch (const dnnl::error& error) {
    return internal_error("MatMul: oneDNN failed on the product of ", shape.m, "x", shape.k, " and ", shape.k, "x",
                          shape.n, ": ", error.what());
  }
}

std::string OneDnnProducts::implementation(const GemmShape& shape) { return describe(shape).impl_info_str(); }

}  // namespace tutti::cpu::internal
