#include "tutti/train/session_creator.h"

#include <utility>

#include "tutti/core/process_identity.h"
#include "tutti/core/strings.h"
#include "tutti/distributed/task_environment.h"
#include "tutti/train/global_step.h"
#include "tutti/train/internal/chief.h"
#include "tutti/train/saver.h"
#include "tutti/train/session_manager.h"
#include "tutti/train/uninitialized.h"

namespace tutti {

ScaffoldSessionCreator::ScaffoldSessionCreator(Graph& graph, SessionCreatorOptions options)
    : graph_(graph), options_(std::move(options)) {}
ScaffoldSessionCreator::~ScaffoldSessionCreator() = default;

SessionManager& ScaffoldSessionCreator::manager() {
  if (manager_ == nullptr) {
    Scaffold& scaffold = *options_.scaffold;
    scaffold.finalize(graph_, options_.environment);
    SessionManagerOptions manager;
    manager.master = options_.master;
    manager.config = options_.config;
    manager.local_init_op = scaffold.local_init_op;
    manager.local_init_feed_dict = scaffold.local_init_feed_dict;
    manager.ready_op = scaffold.ready_op;
    manager.ready_for_local_init_op = scaffold.ready_for_local_init_op;
    manager.recovery_wait_secs = options_.recovery_wait_secs;
    if (is_on_cluster() && get_global_step(graph_)) {
      manager.chief_record = std::make_shared<internal::ChiefRecord>(graph_);
      const auto top = graph_.name_scope("");
      const auto anywhere = graph_.device_scope("");
      manager.uninitialized =
          report_uninitialized_variables(graph_, global_variables(graph_), "chief_record/uninitialized");
    }
    manager_ = std::make_unique<SessionManager>(graph_, std::move(manager), options_.environment);
  }
  return *manager_;
}

bool ScaffoldSessionCreator::is_on_cluster() const {
  const bool local = options_.master.empty() || options_.master == "local";
  return options_.config.connect != nullptr || !local;
}

ChiefSessionCreator::ChiefSessionCreator(Graph& graph, SessionCreatorOptions options)
    : ScaffoldSessionCreator(graph, std::move(options)) {}
ChiefSessionCreator::~ChiefSessionCreator() = default;

std::unique_ptr<Session> ChiefSessionCreator::create_session() {
  SessionManager& sessions = manager();
  if (chief_ == nullptr && is_on_cluster() && get_global_step(graph())) {
    const std::string& master = options().master;
    internal::ChiefOptions chief;
    chief.name = str_cat(describe_this_process(), master.empty() ? "" : str_cat(", master ", master));
    chief.checkpoint_dir = options().checkpoint_dir;
    chief.lease = lease_of(options().config.cluster).value_or_throw();
    chief_ = std::make_unique<internal::Chief>(graph(), environment(), std::move(chief));
  }
  const Scaffold& scaffold = *options().scaffold;
  PrepareOptions prepare;
  prepare.init_op = scaffold.init_op;
  prepare.init_feed_dict = scaffold.init_feed_dict;
  if (scaffold.init_fn) prepare.init_fn = [&scaffold](Session& session) { scaffold.init_fn(scaffold, session); };
  prepare.saver = scaffold.saver.get();
  prepare.checkpoint_dir = options().checkpoint_dir;
  prepare.checkpoint_path = options().checkpoint_path;
  prepare.max_wait_secs = options().max_wait_secs;
  prepare.fall_back_to_older_checkpoint = options().fall_back_to_older_checkpoint;
  prepare.keep_values = options().keep_values;
  prepare.fail_on_lost_values = options().fail_on_lost_values;
  prepare.chief = chief_.get();
  return sessions.prepare_session(prepare);
}

void ChiefSessionCreator::begin(Session& session, Coordinator& coordinator) {
  if (chief_) chief_->begin(session, coordinator);
}
void ChiefSessionCreator::failed(Session& session, const Status& error) {
  if (chief_) chief_->failed(session, error);
}
void ChiefSessionCreator::ended(Session& session) {
  if (chief_) chief_->ended(session);
}

std::unique_ptr<Session> WorkerSessionCreator::create_session() {
  return manager().wait_for_session(options().max_wait_secs);
}

}  // namespace tutti
