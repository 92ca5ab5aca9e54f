#include "tutti/distributed/internal/step_signature.h"

#include <algorithm>

namespace tutti::internal {
namespace {

std::vector<std::string> sorted_names(const std::vector<std::string>& asked, bool tensors) {
  std::vector<std::string> names;
  names.reserve(asked.size());
  for (const std::string& name : asked) names.push_back(tensors ? tensor_name(name) : name);
  std::sort(names.begin(), names.end());
  return names;
}

void drop_repeats(std::vector<std::string>& names) {
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

std::vector<TensorConnection> sorted_connections(const std::vector<TensorConnection>& asked) {
  std::vector<TensorConnection> connections;
  connections.reserve(asked.size());
  for (const auto& [from, to] : asked) connections.push_back({tensor_name(from), tensor_name(to)});
  std::sort(connections.begin(), connections.end());
  return connections;
}

std::vector<int> indices(const std::vector<std::string>& asked, const std::vector<std::string>& names) {
  std::vector<int> result;
  result.reserve(asked.size());
  for (const std::string& name : asked) {
    auto it = std::lower_bound(names.begin(), names.end(), tensor_name(name));
    result.push_back(static_cast<int>(it - names.begin()));
  }
  return result;
}

// Each name after its length, each list with a length at its end that no name has.
class KeyWriter {
 public:
  void add(const std::string& name) {
    const std::size_t size = name.size();
    key_.append(reinterpret_cast<const char*>(&size), sizeof size);
    key_ += name;
  }
  void end_list() { key_.append(sizeof(std::size_t), '\xff'); }
  std::string finish(const std::vector<std::string>& fetches, const std::vector<std::string>& targets) {
    for (const std::string& name : fetches) add(name);
    end_list();
    for (const std::string& name : targets) add(name);
    return std::move(key_);
  }

 private:
  std::string key_;
};

}  // namespace

std::string tensor_name(const std::string& name) {
  return name.find(':') == std::string::npos ? str_cat(name, ":0") : name;
}

Result<StepSignature> canonical(const Signature& asked) {
  if (asked.fetches.empty() && asked.targets.empty()) {
    return invalid_argument("Must specify at least one target to fetch or execute.");
  }
  StepSignature result;
  result.names = {sorted_names(asked.feeds, true), sorted_names(asked.fetches, true),
                  sorted_names(asked.targets, false), sorted_connections(asked.connections)};
  Signature& names = result.names;
  auto twice = std::adjacent_find(names.feeds.begin(), names.feeds.end());
  if (twice != names.feeds.end()) return invalid_argument("Tensor ", printable(*twice), " is fed more than once.");
  drop_repeats(names.fetches);
  drop_repeats(names.targets);
  for (const std::string& fetch : names.fetches) {
    if (std::binary_search(names.feeds.begin(), names.feeds.end(), fetch)) {
      return invalid_argument("Tensor ", printable(fetch), " is both fed and fetched.");
    }
  }
  result.feeds = indices(asked.feeds, names.feeds);
  result.fetches = indices(asked.fetches, names.fetches);
  return result;
}

std::string cache_key(const Signature& signature) {
  KeyWriter key;
  for (const TensorConnection& connection : signature.connections) {
    key.add(connection.from);
    key.add(connection.to);
    key.end_list();
  }
  for (const std::string& name : signature.feeds) key.add(name);
  key.end_list();
  return key.finish(signature.fetches, signature.targets);
}

std::string cache_key(const RunStepRequest& request) {
  KeyWriter key;
  for (const auto& [name, value] : request.feeds) key.add(name);
  key.end_list();
  return key.finish(request.fetches, request.targets);
}

}  // namespace tutti::internal
