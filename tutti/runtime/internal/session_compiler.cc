#include "tutti/runtime/internal/session_compiler.h"

#include <algorithm>

#include "tutti/graph/placement.h"
#include "tutti/kernels/cpu/function_kernels.h"
#include "tutti/kernels/guard.h"
#include "tutti/ops/op_evaluator.h"

namespace tutti::internal {
namespace {

// A function is compiled once for each set of attributes that it is called with. Programs have hundreds of those; one
// whose functions call each other many times, always with other attributes, has as many as it likes.
constexpr std::size_t kMaxFunctions = 10'000;
// Nodes of all of a session's functions together, after functions that they call were put in their place: some seconds
// of compiling, and 1 GB.
constexpr std::size_t kMaxFunctionNodes = 200'000;

bool is_boundary(const Node& node) { return node.op_name() == "_Arg" || node.op_name() == "_Retval"; }

// What a kernel is made of. Attributes that begin with '_' are notes about the graph (where a node goes, what it is
// near to) and may differ between parts of it.
bool same_kernel_attrs(const AttrMap& a, const AttrMap& b) {
  const auto is_same_in = [](const auto& attr, const AttrMap& other) {
    const auto it = other.find(attr.first);
    return attr.first.starts_with('_') || (it != other.end() && it->second == attr.second);
  };
  return std::all_of(a.begin(), a.end(), [&](const auto& attr) { return is_same_in(attr, b); }) &&
         std::all_of(b.begin(), b.end(), [&](const auto& attr) { return is_same_in(attr, a); });
}

std::string types_of(const AttrMap& attrs) {
  std::string out;
  for (const auto& [name, value] : attrs) {
    if (value.get<DType>() == nullptr) continue;
    out += str_cat(out.empty() ? " with " : ", ", name, "=", dtype_name(*value.get<DType>()));
  }
  return out;
}

}  // namespace

// Makes the kernels of one body.
class SessionCompiler::Kernels : public KernelSource {
 public:
  Kernels(SessionCompiler& compiler, std::string scope) : compiler_(compiler), scope_(std::move(scope)) {}

  Result<std::shared_ptr<Kernel>> kernel_for(const Node& node) override {
    // The ends of cut edges have effects but no state, and every cut names them anew.
    if (!node.op().has(kStateful) || node.op().has(kTransfer)) return make(node);
    auto& kernels = compiler_.stateful_kernels_;
    const AttrValue* calls = node.find_attr(kInlinedFrom);
    KernelKey key{scope_, calls == nullptr ? "" : calls->to_string(), node.name()};
    auto it = kernels.find(key);
    if (it == kernels.end()) {
      TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<Kernel> kernel, make(node));
      it = kernels.emplace(std::move(key), StatefulKernel{std::move(kernel), node.op_name(), node.attrs()}).first;
    }
    if (it->second.op != node.op_name() || !same_kernel_attrs(it->second.attrs, node.attrs())) {
      return invalid_argument(node.describe(), " has the name of ", it->second.op, " \"", printable(node.name()),
                              "\", whose state it must not share");
    }
    return it->second.kernel;
  }

 private:
  Result<std::shared_ptr<Kernel>> make(const Node& node) {
    const KernelInit init{.node = node.name(),
                          .op = node.op_name(),
                          .attrs = node.attrs(),
                          .input_types = node.input_types(),
                          .output_types = node.output_types(),
                          .device = node.assigned_device(),
                          .services = compiler_.services()};
    Result<std::unique_ptr<Kernel>> kernel = make_from(node, init);
    if (!kernel.ok()) return kernel.status().with_context(node.describe());
    return std::shared_ptr<Kernel>(*std::move(kernel));
  }

  Result<std::unique_ptr<Kernel>> make_from(const Node& node, const KernelInit& init) {
    if (compiler_.graph_.library().contains(node.op_name())) {
      return make_call_by_name(node, init);
    }
    const KernelEntry* entry = compiler_.options_.ops->find_kernel(node.op_name(), node.attrs(), kCpu);
    if (entry == nullptr) return not_found("there is no kernel for ", kCpu, types_of(node.attrs()));
    return guarded_make(entry->make, init);
  }

  // A node whose op is a function of the library: as if it were a PartitionedCall of it.
  Result<std::unique_ptr<Kernel>> make_call_by_name(const Node& node, const KernelInit& init) {
    AttrMap attrs = node.attrs();
    attrs["f"] = compiler_.graph_.library().called_by(node);
    return call_kernel()({.node = init.node,
                          .op = init.op,
                          .attrs = attrs,
                          .input_types = init.input_types,
                          .output_types = init.output_types,
                          .device = init.device,
                          .services = init.services});
  }

  SessionCompiler& compiler_;
  const std::string scope_;
};

SessionCompiler::SessionCompiler(Graph& graph, Options options)
    : graph_(graph), options_(std::move(options)), allow_soft_placement_(options_.allow_soft_placement) {}
SessionCompiler::~SessionCompiler() = default;

Services SessionCompiler::services() {
  ResourceStore* own = options_.resources;
  return {.resources = own != nullptr ? own : &options_.runtime->resources(),
          .functions = this,
          .clock = &options_.runtime->clock(),
          .files = &options_.runtime->files(),
          .blocking = &options_.runtime->blocking(),
          .memory = options_.memory.get(),
          .task = options_.runtime->task_name()};
}

Result<std::shared_ptr<const Executable>> SessionCompiler::compile_body(FunctionBody body, const PassOptions& passes,
                                                                        const Cancellation* caller) {
  std::lock_guard lock(mu_);
  caller_ = caller;
  Result<std::shared_ptr<const Executable>> executable =
      guarded(MemoryScope::current(), [&] { return compile_in("", std::move(body), passes); });
  caller_ = nullptr;
  return executable;
}

Status SessionCompiler::check_wanted() const {
  if (stopped_.cancelled()) return stopped_.status();
  return caller_ == nullptr || !caller_->cancelled() ? Status() : caller_->status();
}

Result<std::shared_ptr<const Executable>> SessionCompiler::compile_in(const std::string& scope, FunctionBody body,
                                                                      const PassOptions& passes) {
  TUTTI_RETURN_IF_ERROR(check_wanted());
  TUTTI_RETURN_IF_ERROR(run_passes(body, passes, *this));
  TUTTI_RETURN_IF_ERROR(check_wanted());
  if (!scope.empty()) function_nodes_ += body.graph->nodes().size();
  PlacementOptions placement;
  placement.devices = options_.runtime->devices();
  placement.allow_soft_placement = allow_soft_placement_;
  placement.has_kernel = [this](const Node& node, const std::string& device_type) {
    if (is_boundary(node) || graph_.library().contains(node.op_name())) return device_type == kCpu;
    return options_.ops->find_kernel(node.op_name(), node.attrs(), device_type) != nullptr;
  };
  TUTTI_RETURN_IF_ERROR(place(*body.graph, placement));
  Kernels kernels(*this, scope);
  // Functions run on their caller's thread: what runs beside what is decided in the outermost body. And of the nodes
  // that an error went through, the one that users know is in it too.
  const bool outermost = scope.empty();
  const CompileOptions options{.kernels = &kernels,
                               .pool = &options_.runtime->pool(),
                               .parallel_nodes = outermost && options_.parallel_nodes,
                               .mark_nodes = outermost && options_.mark_nodes};
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable, compile(std::move(body), options));
  return std::shared_ptr<const Executable>(std::move(executable));
}

Result<std::vector<Tensor>> SessionCompiler::evaluate(const Node& node, const std::vector<Tensor>& inputs) {
  return evaluate_op(*options_.ops, node.op_name(), node.attrs(), inputs, {.memory = options_.memory.get()});
}

Status SessionCompiler::check_room(const FunctionRef& function) const {
  MutexLock lock(functions_mu_);
  if (functions_.size() < kMaxFunctions && function_nodes_ < kMaxFunctionNodes) return {};
  return resource_exhausted("function \"", printable(function.name), "\": the session has compiled ", functions_.size(),
                            " functions, one for each set of attributes, of ", function_nodes_,
                            " nodes together; it may have ", kMaxFunctions, " and ", kMaxFunctionNodes);
}

Result<FunctionRunner::Handle> SessionCompiler::instantiate(const FunctionRef& function) {
  std::lock_guard lock(mu_);
  TUTTI_RETURN_IF_ERROR(check_wanted());
  auto [begin, end] = handles_.equal_range(function.name);
  for (auto it = begin; it != end; ++it) {
    if (!(it->second.function == function)) continue;
    MutexLock functions_lock(functions_mu_);
    const Status& failure = functions_[it->second.handle].failure;
    if (!failure.ok()) return failure;
    return it->second.handle;
  }

  TUTTI_RETURN_IF_ERROR(check_room(function));
  TUTTI_ASSIGN_OR_RETURN(FunctionBody body,
                         graph_.library().instantiate(function, graph_.shared_ops(), graph_.shared_library()));
  Handle handle = 0;
  {
    MutexLock functions_lock(functions_mu_);
    handle = static_cast<Handle>(functions_.size());
    functions_.push_back({.name = function.name});
  }
  // Before compiling, so that a recursive function finds itself.
  handles_.emplace(function.name, Instance{function, handle});
  Result<std::shared_ptr<const Executable>> executable = guarded(MemoryScope::current(), [&] {
    return compile_in(str_cat(function.name, "#", handle), std::move(body), options_.passes);
  });
  MutexLock functions_lock(functions_mu_);
  if (!executable.ok()) {
    return functions_[handle].failure =
               executable.status().with_context(str_cat("function \"", printable(function.name), "\""));
  }
  functions_[handle].executable = *std::move(executable);
  return handle;
}

void SessionCompiler::set_allow_soft_placement(bool allow) {
  std::lock_guard lock(mu_);
  allow_soft_placement_ = allow;
}

void SessionCompiler::forget_failures() {
  std::lock_guard lock(mu_);
  MutexLock functions_lock(functions_mu_);
  std::erase_if(handles_, [this](const auto& entry)
                              TUTTI_REQUIRES(functions_mu_) { return !functions_[entry.second.handle].failure.ok(); });
}

Result<std::shared_ptr<const Executable>> SessionCompiler::executable_of(Handle handle) const {
  MutexLock lock(functions_mu_);
  const Function& function = functions_[handle];
  if (!function.failure.ok()) return function.failure;
  if (!function.executable) return internal_error("function \"", printable(function.name), "\" runs while it compiles");
  return function.executable;
}

bool SessionCompiler::may_block(Handle handle) const {
  Result<std::shared_ptr<const Executable>> executable = executable_of(handle);
  return !executable.ok() || (*executable)->may_block();
}

void SessionCompiler::run(Handle handle, StepScope& step, std::vector<Tensor> args, Done done) {
  Result<std::shared_ptr<const Executable>> executable = executable_of(handle);
  if (!executable.ok()) return done(executable.status(), {});
  (*executable)->run(step, std::move(args), std::move(done));
}

Status SessionCompiler::run_inline(Handle handle, StepScope& step, std::vector<Tensor> args,
                                   std::vector<Tensor>* results) {
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<const Executable> executable, executable_of(handle));
  return executable->run_inline(step, std::move(args), results);
}

}  // namespace tutti::internal
