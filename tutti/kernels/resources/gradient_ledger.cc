#include "tutti/kernels/resources/gradient_ledger.h"

#include "tutti/core/strings.h"
#include "tutti/kernels/resources/slots.h"

namespace tutti {

void GradientLedger::count(std::string_view worker, std::string_view accumulator, GradientFate fate) {
  if (worker.empty()) worker = kUnknown;
  MutexLock lock(mu_);
  Key key(worker, accumulator);
  auto row = rows_.find(key);
  if (row == rows_.end()) {
    if (rows_.size() >= kMaxRows) key = Key(kOthers, kOthers);
    Row fresh{.worker = key.first, .accumulator = key.second};
    row = rows_.try_emplace(std::move(key), std::move(fresh)).first;
  }
  switch (fate) {
    case GradientFate::kApplied:
      ++row->second.applied;
      break;
    case GradientFate::kStale:
      ++row->second.stale;
      break;
    case GradientFate::kRetried:
      ++row->second.retried;
      break;
  }
}

std::vector<GradientLedger::Row> GradientLedger::rows() const {
  std::vector<Row> rows;
  MutexLock lock(mu_);
  rows.reserve(rows_.size());
  for (const auto& [key, row] : rows_) rows.push_back(row);
  return rows;
}

Result<std::shared_ptr<GradientLedger>> gradient_ledger_in(ResourceStore& resources, std::string_view container) {
  const auto slot =
      resources.slot(container.empty() ? ResourceStore::kDefaultContainer : container, GradientLedger::kName);
  slot->get_or_create([] { return std::make_shared<GradientLedger>(); });
  return resource_in<GradientLedger>(*slot, "gradient ledger");
}

std::shared_ptr<GradientLedger> ledger_for(KernelContext& ctx, const ResourceSlot& accumulator) {
  if (ctx.services().resources == nullptr) return nullptr;
  auto ledger = gradient_ledger_in(*ctx.services().resources, accumulator.container());
  return ledger.ok() ? *std::move(ledger) : nullptr;
}

Status check_worker_name(std::string_view worker) {
  if (worker.size() <= GradientLedger::kMaxWorkerName) return {};
  return invalid_argument("the worker's name has ", worker.size(), " bytes, ", GradientLedger::kMaxWorkerName,
                          " are allowed: \"", printable(worker, 40), "\"");
}

}  // namespace tutti
