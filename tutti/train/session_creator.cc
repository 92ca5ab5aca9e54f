#include "tutti/train/session_creator.h"

#include <utility>

#include "tutti/train/saver.h"
#include "tutti/train/session_manager.h"

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
    manager_ = std::make_unique<SessionManager>(graph_, std::move(manager), options_.environment);
  }
  return *manager_;
}

std::unique_ptr<Session> ChiefSessionCreator::create_session() {
  SessionManager& sessions = manager();
  const Scaffold& scaffold = *options().scaffold;
  PrepareOptions prepare;
  prepare.init_op = scaffold.init_op;
  prepare.init_feed_dict = scaffold.init_feed_dict;
  if (scaffold.init_fn) prepare.init_fn = [&scaffold](Session& session) { scaffold.init_fn(scaffold, session); };
  prepare.saver = scaffold.saver.get();
  prepare.checkpoint_dir = options().checkpoint_dir;
  prepare.checkpoint_path = options().checkpoint_path;
  prepare.max_wait_secs = options().max_wait_secs;
  return sessions.prepare_session(prepare);
}

std::unique_ptr<Session> WorkerSessionCreator::create_session() {
  return manager().wait_for_session(options().max_wait_secs);
}

}  // namespace tutti
