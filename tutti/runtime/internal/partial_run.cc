#include "tutti/runtime/internal/partial_run.h"

#include <algorithm>

#include "tutti/core/rendezvous_key.h"

namespace tutti::internal {
namespace {

std::string key_of(const std::string& device, const std::string& tensor_name) {
  return RendezvousKey{.send_device = device, .recv_device = device, .name = tensor_name}.to_string();
}

// A node name made of a tensor's: kernels that send and receive are kept by name, so it must tell tensors apart.
std::string boundary_name(std::string_view prefix, const std::string& tensor) {
  std::string name = str_cat(prefix, tensor);
  std::replace(name.begin(), name.end(), ':', '/');
  return name;
}

AttrMap boundary_attrs(const std::string& device, const std::string& tensor_name) {
  return {{"tensor_name", tensor_name},
          {"send_device", device},
          {"send_device_incarnation", std::int64_t{0}},
          {"recv_device", device}};
}

// The feeds that a result depends on.
std::set<std::string> feeds_behind(const Node* result, const std::map<const Node*, std::string>& feed_of) {
  std::set<std::string> feeds;
  std::set<const Node*> seen{result};
  std::vector<const Node*> open{result};
  auto visit = [&](const Node* node) {
    if (seen.insert(node).second) open.push_back(node);
  };
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    auto feed = feed_of.find(node);
    if (feed != feed_of.end()) feeds.insert(feed->second);
    for (const Output& input : node->inputs()) visit(input.node);
    for (const Node* before : node->control_inputs()) visit(before);
  }
  return feeds;
}

}  // namespace

Result<std::unique_ptr<PartialRun>> PartialRun::create(const Signature& signature, FunctionBody& body,
                                                       const std::string& device) {
  auto run = std::unique_ptr<PartialRun>(new PartialRun);
  Graph& graph = *body.graph;
  std::map<const Node*, std::string> feed_of;
  for (std::size_t i = 0; i < signature.feeds.size(); ++i) {
    const std::string& feed = signature.feeds[i];
    Node& arg = *body.args[i];
    const DType dtype = arg.output_types()[0].dtype;
    const PartialShape shape = arg.output_shape(0);
    AttrMap attrs = boundary_attrs(device, str_cat("feed:", feed));
    attrs["tensor_type"] = dtype;
    TUTTI_ASSIGN_OR_RETURN(Node * recv,
                           graph.add_exact({.op = "_Recv", .name = boundary_name("_recv/", feed), .attrs = attrs}));
    graph.replace_uses(arg.output(0), recv->output(0));
    graph.remove(arg);
    feed_of[recv] = feed;
    run->feeds_[feed] = {.key = key_of(device, str_cat("feed:", feed)), .dtype = dtype, .shape = shape};
  }
  for (std::size_t i = 0; i < signature.fetches.size(); ++i) {
    const std::string& fetch = signature.fetches[i];
    Node& retval = *body.retvals[i];
    AttrMap attrs = boundary_attrs(device, str_cat("fetch:", fetch));
    TUTTI_ASSIGN_OR_RETURN(
        Node * send,
        graph.add_exact(
            {.op = "_Send", .name = boundary_name("_send/", fetch), .inputs = {retval.input(0)}, .attrs = attrs}));
    run->fetches_[fetch] = {.key = key_of(device, str_cat("fetch:", fetch)), .needs = feeds_behind(send, feed_of)};
    graph.remove(retval);
    body.targets.push_back(send);
  }
  body.args.clear();
  body.retvals.clear();
  return run;
}

void PartialRun::watch(Cancellation& step) {
  token_ = step.register_callback([this, &step] { rendezvous_.abort(step.status()); });
}

void PartialRun::end(Cancellation& step, Status status) {
  if (token_ != 0) step.deregister(token_);
  if (!status.ok()) rendezvous_.abort(status);
  MutexLock lock(mu_);
  ended_ = true;
  status_.update(std::move(status));
  changed_.notify_all();
}

Status PartialRun::check(const Feeds& feeds, const std::vector<TensorName>& fetches) {
  TUTTI_RETURN_IF_ERROR(status_);
  std::set<std::string> given = given_;
  for (const auto& [name, value] : feeds) {
    auto feed = feeds_.find(name.str());
    if (feed == feeds_.end()) {
      return invalid_argument("feed \"", printable(name.str()), "\" was not named in partial_run_setup");
    }
    if (!given.insert(name.str()).second) {
      return invalid_argument("feed \"", printable(name.str()), "\" was given already");
    }
    const auto& [key, dtype, shape] = feed->second;
    if (dtype != value.dtype()) {
      return invalid_argument("feed \"", printable(name.str()), "\": expected ", dtype_name(dtype), ", got ",
                              dtype_name(value.dtype()));
    }
    if (!shape.compatible_with(value.shape())) {
      return invalid_argument("feed \"", printable(name.str()), "\": shape ", value.shape(), " does not fit ", shape);
    }
  }
  std::set<std::string> taken = taken_;
  for (const TensorName& name : fetches) {
    auto fetch = fetches_.find(name.str());
    if (fetch == fetches_.end()) {
      return invalid_argument("fetch \"", printable(name.str()), "\" was not named in partial_run_setup");
    }
    if (!taken.insert(name.str()).second) {
      return invalid_argument("fetch \"", printable(name.str()), "\" was taken already");
    }
    for (const std::string& feed : fetch->second.needs) {
      if (!given.contains(feed)) {
        return invalid_argument("fetch \"", printable(name.str()), "\" needs feed \"", printable(feed),
                                "\", which was not given yet");
      }
    }
  }
  given_ = std::move(given);
  taken_ = std::move(taken);
  return {};
}

Result<std::vector<Tensor>> PartialRun::run(const Feeds& feeds, const std::vector<TensorName>& fetches) {
  {
    MutexLock lock(mu_);
    TUTTI_RETURN_IF_ERROR(check(feeds, fetches));
  }
  for (const auto& [name, value] : feeds) {
    TUTTI_RETURN_IF_ERROR(rendezvous_.send(feeds_.at(name.str()).key, value, false));
  }
  Result<std::vector<Tensor>> values = receive(fetches);
  // One fetch that cannot be had ends the run: the step, and whoever waits for other fetches.
  if (!values.ok()) rendezvous_.abort(values.status());
  MutexLock lock(mu_);
  if (!values.ok()) status_.update(values.status());
  // What only targets do has no fetch to fail: its errors are known when the step ends.
  while (status_.ok() && complete() && !ended_) changed_.wait(mu_);
  if (!status_.ok()) return status_;
  return values;
}

Result<std::vector<Tensor>> PartialRun::receive(const std::vector<TensorName>& fetches) {
  struct Arrivals {
    Mutex mu;
    CondVar changed;
    std::size_t missing = 0;
    Status status;
    std::vector<Tensor> values;
  };
  auto arrivals = std::make_shared<Arrivals>();
  arrivals->missing = fetches.size();
  arrivals->values.resize(fetches.size());
  for (std::size_t i = 0; i < fetches.size(); ++i) {
    const std::string& name = fetches[i].str();
    rendezvous_.recv(fetches_.at(name).key, waiting_, [arrivals, name, i](Status status, Tensor value, bool dead) {
      if (status.ok() && dead) {
        status = invalid_argument("The tensor returned for ", printable(name),
                                  " was not valid: it lies on a branch that was not taken");
      }
      MutexLock lock(arrivals->mu);
      arrivals->status.update(std::move(status));
      arrivals->values[i] = std::move(value);
      --arrivals->missing;
      arrivals->changed.notify_one();
    });
  }
  MutexLock lock(arrivals->mu);
  while (arrivals->missing > 0 && arrivals->status.ok()) arrivals->changed.wait(arrivals->mu);
  if (!arrivals->status.ok()) return arrivals->status;
  return std::move(arrivals->values);
}

bool PartialRun::over() const {
  MutexLock lock(mu_);
  return !status_.ok() || (complete() && ended_);
}

}  // namespace tutti::internal
