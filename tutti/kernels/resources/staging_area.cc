#include "tutti/kernels/resources/staging_area.h"

#include <utility>

namespace tutti {

namespace {

// TensorFlow's tstring; limits mean the same here, whatever ours takes.
constexpr std::int64_t kStagedStringBytes = 24;

// As TensorFlow counts: strings with what they hold.
std::int64_t bytes_of(const Tensor& tensor) {
  if (tensor.dtype() != DType::kString) return static_cast<std::int64_t>(tensor.bytes());
  std::int64_t bytes = kStagedStringBytes * tensor.num_elements();
  for (const std::string& text : tensor.flat<std::string>()) bytes += static_cast<std::int64_t>(text.size());
  return bytes;
}

std::int64_t bytes_of(const TensorTuple& tuple) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : tuple) bytes += bytes_of(tensor);
  return bytes;
}

}  // namespace

StagingArea::StagingArea(std::string name, StagingLimits limits) : name_(std::move(name)), limits_(limits) {}

void StagingArea::put(TensorTuple tuple, Cancellation& cancellation, Done done) {
  auto visitor = std::make_shared<Visitor>();
  visitor->bytes = bytes_of(tuple);
  if (limits_.bytes > 0 && visitor->bytes > limits_.bytes) {
    return done(resource_exhausted("Attempted to insert tensors with combined size of '", visitor->bytes,
                                   "' bytes into staging area '", printable(name_), "' with a memory limit of '",
                                   limits_.bytes, "'."),
                {});
  }
  visitor->answer = std::move(tuple);
  enter(&StagingArea::puts_, visitor, cancellation, std::move(done));
}

void StagingArea::get(Cancellation& cancellation, Done done) {
  enter(&StagingArea::gets_, std::make_shared<Visitor>(), cancellation, std::move(done));
}

void StagingArea::peek(std::int64_t index, Cancellation& cancellation, Done done) {
  if (index < 0) return done(invalid_argument("index ", index, " of a staged tuple must not be negative"), {});
  auto visitor = std::make_shared<Visitor>();
  visitor->index = index;
  enter(&StagingArea::peeks_, visitor, cancellation, std::move(done));
}

void StagingArea::enter(Line StagingArea::*line, const VisitorPtr& visitor, Cancellation& cancellation, Done done) {
  visitor->done = std::move(done);
  visitor->cancellation = &cancellation;
  const Cancellation::Token token =
      cancellation.register_callback([self = shared_from_this(), line, visitor] { self->leave(line, visitor); });
  std::vector<VisitorPtr> finished;
  {
    MutexLock lock(mu_);
    if (visitor->came_too_late(token)) {
      visitor->finish(cancelled("staging area '", printable(name_), "': the operation was cancelled"));
      finished.push_back(visitor);
    } else if (abandoned_) {
      visitor->finish(abandoned_error());
      finished.push_back(visitor);
    } else {
      visitor->phase = Visitor::Phase::kWaiting;
      (this->*line).push_back(visitor);
      serve(&finished);
    }
  }
  answer_all(finished);
}

void StagingArea::leave(Line StagingArea::*line, const VisitorPtr& visitor) {
  std::vector<VisitorPtr> finished;
  {
    MutexLock lock(mu_);
    if (!visitor->cancel()) return;
    (this->*line).remove(visitor);
    visitor->finish(cancelled("staging area '", printable(name_), "': the operation was cancelled"));
    finished.push_back(visitor);
    serve(&finished);  // the one behind it may be smaller
  }
  answer_all(finished);
}

bool StagingArea::has_room_for(std::int64_t bytes) const {
  if (limits_.tuples > 0 && static_cast<std::int64_t>(tuples_.size()) >= limits_.tuples) return false;
  return limits_.bytes == 0 || bytes_ + bytes <= limits_.bytes;
}

bool StagingArea::serve_put(std::vector<VisitorPtr>* finished) {
  if (puts_.empty() || !has_room_for(puts_.front()->bytes)) return false;
  const VisitorPtr visitor = std::move(puts_.front());
  puts_.pop_front();
  bytes_ += visitor->bytes;
  tuples_.push_back(std::exchange(visitor->answer, {}));
  visitor->finish({});
  finished->push_back(visitor);
  return true;
}

bool StagingArea::serve_get(std::vector<VisitorPtr>* finished) {
  if (gets_.empty() || tuples_.empty()) return false;
  const VisitorPtr visitor = std::move(gets_.front());
  gets_.pop_front();
  visitor->answer = std::move(tuples_.front());
  tuples_.pop_front();
  bytes_ -= bytes_of(visitor->answer);
  visitor->finish({});
  finished->push_back(visitor);
  return true;
}

void StagingArea::serve_peeks(std::vector<VisitorPtr>* finished) {
  for (auto it = peeks_.begin(); it != peeks_.end();) {
    const VisitorPtr& visitor = *it;
    if (visitor->index >= static_cast<std::int64_t>(tuples_.size())) {
      ++it;
      continue;
    }
    visitor->answer = tuples_[static_cast<std::size_t>(visitor->index)];
    visitor->finish({});
    finished->push_back(visitor);
    it = peeks_.erase(it);
  }
}

// Each side makes room for the other. Who peeks sees a tuple before somebody takes it.
void StagingArea::serve(std::vector<VisitorPtr>* finished) {
  bool moved = true;
  while (moved) {
    moved = serve_put(finished);
    serve_peeks(finished);
    moved |= serve_get(finished);
  }
}

std::int64_t StagingArea::size() const {
  MutexLock lock(mu_);
  return static_cast<std::int64_t>(tuples_.size());
}

void StagingArea::clear() {
  std::vector<VisitorPtr> finished;
  {
    MutexLock lock(mu_);
    tuples_.clear();
    bytes_ = 0;
    serve(&finished);
  }
  answer_all(finished);
}

std::string StagingArea::debug_string() const { return str_cat("staging area '", printable(name_), "'"); }

Status StagingArea::abandoned_error() const { return aborted(debug_string(), " was reset or destroyed"); }

void StagingArea::abandon() {
  std::vector<VisitorPtr> finished;
  {
    MutexLock lock(mu_);
    abandoned_ = true;
    for (Line* line : {&puts_, &gets_, &peeks_}) {
      for (const VisitorPtr& visitor : *line) {
        visitor->finish(abandoned_error());
        finished.push_back(visitor);
      }
      line->clear();
    }
  }
  answer_all(finished);
}

}  // namespace tutti
