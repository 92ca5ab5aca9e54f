#include "tutti/distributed/internal/received_values.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "tutti/core/rendezvous_key.h"
#include "tutti/core/strings.h"

namespace tutti::internal {

std::string_view source_of(std::string_view key, std::string_view task) {
  const std::size_t from_end = key.find(';');
  const std::string_view from = task_of(key.substr(0, from_end));
  if (from == task || from_end == std::string_view::npos) return {};
  const std::size_t incarnation_end = key.find(';', from_end + 1);
  if (incarnation_end == std::string_view::npos) return {};
  const std::string_view rest = key.substr(incarnation_end + 1);
  return task_of(rest.substr(0, rest.find(';'))) == task ? from : std::string_view();
}

std::uint64_t incarnation_in(std::string_view key) {
  const std::string_view text = key.substr(key.find(';') + 1);
  std::uint64_t incarnation = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), incarnation, 16);
  return incarnation;
}

std::string name_in(std::string_view key) {
  const Result<RendezvousKey> parsed = RendezvousKey::parse(key);
  return printable(parsed.ok() ? std::string_view(parsed->name) : key);
}

ReceivedValues::ReceivedValues(std::string_view task, const std::vector<std::string>& keys,
                               const std::vector<bool>& unhurried) {
  std::unordered_set<std::string_view> hurried;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const std::string& key = keys[k];
    if (k >= unhurried.size() || !unhurried[k]) hurried.insert(key);
    const std::string_view from = source_of(key, task);
    if (from.empty()) continue;
    const std::uint64_t incarnation = incarnation_in(key);
    auto source = std::find_if(sources_.begin(), sources_.end(),
                               [&](const auto& one) { return one->task == from && one->incarnation == incarnation; });
    if (source == sources_.end()) {
      source = sources_.insert(source, std::make_unique<Source>());
      (*source)->task = from;
      (*source)->incarnation = incarnation;
    }
    (*source)->keys.push_back(key);
  }
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    std::vector<std::string>& own = sources_[s]->keys;
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    for (std::size_t i = 0; i < own.size(); ++i) {
      places_.emplace(own[i], Place{s, i});
      if (!hurried.contains(own[i])) sources_[s]->unhurried.push_back(static_cast<std::int64_t>(i));
    }
  }
}

}  // namespace tutti::internal
