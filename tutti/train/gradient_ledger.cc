#include "tutti/train/gradient_ledger.h"

#include "tutti/ops/builders.h"

namespace tutti {

GradientCounts& GradientCounts::operator+=(const GradientCounts& other) {
  applied += other.applied;
  stale += other.stale;
  retried += other.retried;
  return *this;
}

GradientLedgerReader::GradientLedgerReader(Graph& graph, const std::vector<std::string>& devices,
                                           const std::string& container)
    : devices_(devices) {
  if (devices_.empty()) throw_error(invalid_argument("gradient ledger: no device to ask"));
  ScopeGuard root = graph.name_scope("");
  for (const std::string& device : devices_) {
    ScopeGuard nowhere_else = graph.device_scope("");
    ScopeGuard there = graph.device_scope(device);
    Node* node = add_op(graph, "TuttiGradientLedger", {}, {{"container", container}}, "gradient_ledger");
    for (int i = 0; i < 3; ++i) fetches_.emplace_back(node->output(i));
  }
}

std::vector<GradientRow> GradientLedgerReader::read(Session& session) const {
  const std::vector<Tensor> fetched = session.run({}, fetches_);
  std::vector<GradientRow> rows;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const auto workers = fetched[3 * d].flat<std::string>();
    const auto accumulators = fetched[3 * d + 1].flat<std::string>();
    const auto counts = fetched[3 * d + 2].flat<std::int64_t>();
    // What comes from a server is not trusted to fit.
    if (accumulators.size() != workers.size() || counts.size() != 3 * workers.size()) {
      throw_error(internal_error("the gradient ledger of ", devices_[d], " has ", workers.size(), " workers, ",
                                 accumulators.size(), " accumulators and ", counts.size(), " counts"));
    }
    for (std::size_t i = 0; i < workers.size(); ++i) {
      rows.push_back({devices_[d],
                      workers[i],
                      accumulators[i],
                      {.applied = counts[3 * i], .stale = counts[3 * i + 1], .retried = counts[3 * i + 2]}});
    }
  }
  return rows;
}

std::map<std::string, GradientCounts> counts_by_worker(const std::vector<GradientRow>& rows) {
  std::map<std::string, GradientCounts> counts;
  for (const GradientRow& row : rows) counts[row.worker] += row.counts;
  return counts;
}

}  // namespace tutti
