// Reads digits with a network of 784-500-500-10 units that is trained by several workers on parameter servers.
//
//   tutti run --ps 2 --workers 2 distributed_mnist
//   tutti run --ps 2 --workers 2 distributed_mnist --is_sync
//   tutti run --ps 2 --workers 2 --threads 1 distributed_mnist --strict
//
// or each task by itself, on any machine that the others reach:
//
//   T="--ps_hosts=localhost:2222,localhost:2223 --worker_hosts=localhost:2224,localhost:2225"
//   distributed_mnist $T --job_name=ps --task_index=0 &
//   distributed_mnist $T --job_name=ps --task_index=1 &
//   distributed_mnist $T --job_name=worker --task_index=0 &
//   distributed_mnist $T --job_name=worker --task_index=1
//
// Between-graph replication: every worker builds the same graph for itself, and they meet in the variables, which are
// on the parameter servers under the same names. Asynchronous: each worker applies its gradients when it has them.
// Synchronous (--is_sync): gradients of all workers are averaged and applied once. Strict (--strict): the same, and any
// number of workers, with as many threads each, comes to the same bits.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "digit_training.h"
#include "tutti/tutti.h"

using namespace tutti;
using namespace examples;

namespace {

struct Flags {
  std::string ps_hosts = "localhost:2222";
  std::string worker_hosts = "localhost:2223,localhost:2224";
  std::string job_name = "worker";
  int task_index = 0;
  int num_workers = 0;
  bool is_sync = false;
  bool strict = false;
  int shards = 4;
  std::int64_t log_gradients = 0;
  int replicas_to_aggregate = 0;
  std::int64_t train_steps = 2000;
  std::int64_t batch_size = 32;
  std::string optimizer = "adam";
  double learning_rate = 1e-4;
  double gradient_noise = 0;
  double delay_compensation = 0;
  std::string checkpoint_dir;
  std::int64_t save_steps = 500;
  std::int64_t log_steps = 100;
  std::int64_t digits = 30000;
  bool evaluate = true;
  bool log_cluster = false;
  SecurityOptions security;
  std::string join_token_file;
  std::vector<std::string> data_directories;
  double lease_seconds = 0;
};

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(double learning_rate)>;

template <typename T, typename... Args>
MakeOptimizer makes(Args... args) {
  return [=](double learning_rate) { return std::make_unique<T>(learning_rate, args...); };
}

const std::map<std::string, MakeOptimizer>& optimizers() {
  static const std::map<std::string, MakeOptimizer> all = {{"adadelta", makes<Adadelta>()},
                                                           {"adagrad", makes<Adagrad>()},
                                                           {"adam", makes<Adam>()},
                                                           {"adamw", makes<AdamW>()},
                                                           {"ftrl", makes<Ftrl>()},
                                                           {"lamb", makes<LAMB>()},
                                                           {"momentum", makes<Momentum>(0.9)},
                                                           {"nadam", makes<Nadam>()},
                                                           {"rmsprop", makes<RMSProp>()},
                                                           {"sgd", makes<SGD>()}};
  return all;
}

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("--ps_hosts", flags.ps_hosts, "Parameter servers: host:port,host:port")->capture_default_str();
  app.add_option("--worker_hosts", flags.worker_hosts, "Workers: host:port,host:port")->capture_default_str();
  app.add_option("--job_name", flags.job_name, "ps or worker")->capture_default_str();
  app.add_option("--task_index", flags.task_index, "Index of the task within its job")->capture_default_str();
  app.add_option("--num_workers", flags.num_workers, "With --is_sync: the workers to expect. 0: as the cluster has")
      ->check(CLI::NonNegativeNumber);
  CLI::Option* const sync =
      app.add_flag("--is_sync", flags.is_sync, "Average the gradients of all workers before they are applied");
  CLI::Option* const strict =
      app.add_flag("--strict", flags.strict, "The same bits on any number of workers: each step is cut into --shards")
          ->excludes(sync);
  app.add_option("--shards", flags.shards, "With --strict: parts of a step, each of --batch_size digits")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--log_gradients", flags.log_gradients,
                 "With --is_sync or --strict: the chief says every so many steps, and at the end, how many of each "
                 "worker's gradients counted, came too late or came again; 0: never")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--replicas_to_aggregate", flags.replicas_to_aggregate,
                 "With --is_sync: gradients that make a step; the other workers are backups. 0: one of each worker")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--train_steps", flags.train_steps, "The global step to end at")->capture_default_str();
  app.add_option("--batch_size", flags.batch_size, "Digits in a step of one worker")->capture_default_str();
  app.add_option("--optimizer", flags.optimizer, "What applies the gradients")
      ->check(CLI::IsMember(&optimizers()))
      ->capture_default_str();
  app.add_option("--learning_rate", flags.learning_rate, "The optimizer's")->capture_default_str();
  app.add_option("--gradient_noise", flags.gradient_noise, "Variance of noise on the gradients, which fades; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->excludes(strict);
  app.add_option("--delay_compensation", flags.delay_compensation,
                 "Correct late gradients by what other workers did meanwhile, times so much; 0: apply them as they are")
      ->check(CLI::NonNegativeNumber)
      ->excludes(sync)
      ->excludes(strict);
  app.add_option("--checkpoint_dir", flags.checkpoint_dir, "Where checkpoints go and come from; none when empty");
  app.add_option("--save_steps", flags.save_steps, "Steps between checkpoints")->capture_default_str();
  app.add_option("--log_steps", flags.log_steps, "Steps between lines of progress")->capture_default_str();
  app.add_option("--digits", flags.digits, "Digits to draw, where there are no files of MNIST")->capture_default_str();
  app.add_flag("--evaluate,!--no-evaluate", flags.evaluate, "Whether the chief tests the result");
  app.add_flag("--log_cluster", flags.log_cluster, "Say also when other tasks come and go as they should");
}

// For tasks on several machines.
void add_network_flags(CLI::App& app, Flags& flags) {
  app.add_option("--ca", flags.security.ca_file, "PEM file with the trusted authority (tutti certs)");
  app.add_option("--cert", flags.security.certificate_file, "PEM file with this task's certificate");
  app.add_option("--key", flags.security.key_file, "PEM file with its key");
  app.add_option("--join_token_file", flags.join_token_file,
                 "File with the cluster's secret; else the environment variable TUTTI_JOIN_TOKEN");
  app.add_flag("--insecure", flags.security.insecure,
               "No encryption and no secret: anyone who reaches the ports can run graphs here");
  app.add_option("--data_dir", flags.data_directories,
                 "A directory that the tasks may read and write besides --checkpoint_dir; may be given again");
  app.add_option("--lease", flags.lease_seconds, "Seconds that a task may be silent before it is taken for dead; 30")
      ->check(CLI::Range(0.5, 1e6));
}

// Which task of which cluster this is: what `tutti run` says in TF_CONFIG, else the flags.
ServerOptions this_task(const Flags& flags) {
  ServerOptions options;
  if (auto told = server_options_from_env().value_or_throw()) {
    options = *std::move(told);
  } else {
    options.cluster = ClusterSpec::from_flags(flags.ps_hosts, flags.worker_hosts).value_or_throw();
    options.job = flags.job_name;
    options.task = flags.task_index;
  }
  options.security.ca_file = flags.security.ca_file;
  options.security.certificate_file = flags.security.certificate_file;
  options.security.key_file = flags.security.key_file;
  options.security.insecure = flags.security.insecure;
  if (!flags.data_directories.empty()) options.data_directories = flags.data_directories;
  if (!flags.join_token_file.empty()) {
    const std::string text = read_file(local_file_system(), flags.join_token_file).value_or_throw();
    options.security.join_token = str_strip(text);
  }
  // Where graphs may touch some directories only, this is one of them.
  const bool open_to_others = flags.security.insecure || !flags.security.ca_file.empty();
  if (!flags.checkpoint_dir.empty() && (open_to_others || !options.data_directories.empty())) {
    throw_if_error(local_file_system().make_directories(flags.checkpoint_dir));
    options.data_directories.push_back(flags.checkpoint_dir);
  }
  if (flags.lease_seconds > 0) {
    options.lease = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * flags.lease_seconds));
  }
  return options;
}

// The chief, where there is one, is the first of the workers.
struct Place {
  explicit Place(const ServerOptions& task)
      : cluster(task.cluster), device(str_cat("/job:", task.job, "/task:", task.task)) {
    const bool has_chief = cluster.tasks().contains("chief");
    const auto of_job = cluster.tasks().find("worker");
    workers = (of_job == cluster.tasks().end() ? 0 : static_cast<int>(of_job->second.size())) + (has_chief ? 1 : 0);
    number = task.task + (has_chief && task.job == "worker" ? 1 : 0);
  }
  bool is_chief() const { return number == 0; }

  const ClusterSpec& cluster;
  const std::string device;
  int workers = 0;
  int number = 0;  // of this one among the workers
};

// Says where the training is whenever that many steps have passed; with 1, after every gradient, of which a synchronous
// worker may make several for one step. On a terminal a bar does.
class Progress {
 public:
  Progress(std::int64_t every, std::int64_t last) : every_(every), last_(last), bar_(isatty(STDOUT_FILENO) != 0) {}

  void show(std::int64_t step, float loss) {
    note(step);
    // Far behind the next line: a checkpoint was restored.
    if (every_ <= 0 || (step < next_ && step > next_ - 2 * every_)) return;
    if (bar_) {
      draw(step, loss);
    } else {
      std::printf("Train step %lld, loss: %f\n", static_cast<long long>(step), loss);
    }
    std::fflush(stdout);
    next_ = every_ == 1 ? step : (step / every_ + 1) * every_;
  }

  void summarise() const {
    if (bar_ && every_ > 0) std::printf("\n");
    std::printf("%.1f global steps/s\n", speed());
    std::fflush(stdout);
  }

 private:
  using Clock = std::chrono::steady_clock;

  // The first step is not counted: it makes connections and plans.
  void note(std::int64_t step) {
    now_ = Clock::now();
    now_step_ = step;
    if (first_step_ < 0) first_ = now_, first_step_ = step;
  }

  double speed() const {
    const double seconds = std::chrono::duration<double>(now_ - first_).count();
    return seconds > 0 ? static_cast<double>(now_step_ - first_step_) / seconds : 0;
  }

  void draw(std::int64_t step, float loss) const {
    constexpr std::int64_t kWidth = 40;
    const std::int64_t full = std::min(kWidth, kWidth * step / std::max<std::int64_t>(1, last_));
    const std::string done(static_cast<std::size_t>(full), '=');
    std::printf("\r[%-*s] %lld/%lld  loss %.4f  %.0f global steps/s ", static_cast<int>(kWidth), done.c_str(),
                static_cast<long long>(step), static_cast<long long>(last_), loss, speed());
  }

  const std::int64_t every_;
  const std::int64_t last_;
  const bool bar_;
  std::int64_t next_ = 0;
  Clock::time_point first_, now_;
  std::int64_t first_step_ = -1;
  std::int64_t now_step_ = 0;
};

// Says where a session begins: at the start, and again each time that a task was lost.
class SayWhere : public SessionRunHook {
 public:
  explicit SayWhere(Var global_step) : global_step_(global_step) {}
  void after_create_session(Session& session, Coordinator& /*coordinator*/) override {
    std::printf("Session begins at step %lld\n", static_cast<long long>(read_global_step(session, global_step_)));
    std::fflush(stdout);
  }

 private:
  const Var global_step_;
};

// What `optimizer`, plain or of several replicas, is given to apply.
template <typename AnyOptimizer>
std::vector<GradientAndVariable> gradients(AnyOptimizer& optimizer, const DigitModel& model, const Var& global_step,
                                           const Place& place, const Flags& flags) {
  auto pairs = optimizer.compute_gradients(model.loss);
  if (flags.gradient_noise == 0) return pairs;
  const Seeds seeds{kSeed, place.number};  // each worker has noise of its own
  return add_gradient_noise(pairs, global_step.read(), {.eta = flags.gradient_noise, .seeds = seeds});
}

std::vector<std::string> parameter_servers(const ClusterSpec& cluster) {
  std::vector<std::string> devices;
  const auto tasks = cluster.tasks().find("ps");
  if (tasks == cluster.tasks().end()) return devices;
  for (const auto& [index, address] : tasks->second) devices.push_back(str_cat("/job:ps/task:", index));
  return devices;
}

// Batches of a worker's own, in random order; strictly, those that a claim {step, shard} names, the same for all.
class Feeder {
 public:
  Feeder(const Place& place, const Flags& flags)
      : shards_(flags.shards),
        batch_size_(flags.batch_size),
        set_(training_digits(flags.strict ? flags.digits : flags.digits / place.workers,
                             flags.strict ? 0 : place.number)),
        batches_(set_, batch_size_, kSeed + static_cast<std::uint64_t>(place.number)) {}

  DigitSet next() { return batches_.next(); }
  DigitSet of_claim(const Tensor& claim) const {
    const std::int64_t number = claim.data<std::int64_t>()[0] * shards_ + claim.data<std::int64_t>()[1];
    const std::int64_t begin = number * batch_size_ % std::max<std::int64_t>(set_.size() - batch_size_, 1);
    const std::int64_t end = std::min(begin + batch_size_, set_.size());
    return {set_.images.slice(begin, end), set_.labels.slice(begin, end)};
  }

 private:
  const std::int64_t shards_;
  const std::int64_t batch_size_;
  const DigitSet set_;
  Batches batches_;
};

void train(Server& server, const Place& place, const Flags& flags) {
  Feeder feeder(place, flags);
  // Variables go to the parameter servers by their sizes, everything else to this worker.
  Graph graph(builtin_ops());
  const auto servers = static_cast<int>(parameter_servers(place.cluster).size());
  const auto scope = graph.device_scope(
      replica_device_setter({.cluster = place.cluster,
                             .worker_device = place.device,
                             .ps_strategy = servers > 0 ? greedy_load_balancing(servers) : PsStrategy()}));
  const DigitModel model(graph);
  const Var global_step = get_or_create_global_step(graph);
  const std::unique_ptr<Optimizer> optimizer = optimizers().at(flags.optimizer)(flags.learning_rate);
  std::vector<Hook> hooks = {SayWhere(global_step), StopAtStepHook({.last_step = flags.train_steps})};
  std::vector<Hook> chief_hooks;
  // The chief's comes before what saves: when the last checkpoint is saved nobody trains any more.
  std::vector<Hook>& replica_hooks = place.is_chief() ? chief_hooks : hooks;
  const int workers = flags.num_workers > 0 ? flags.num_workers : place.workers;
  SyncReplicas replicas(
      *optimizer, {.replicas_to_aggregate = flags.replicas_to_aggregate > 0 ? flags.replicas_to_aggregate : workers,
                   .total_num_replicas = workers,
                   .worker = place.device});
  std::optional<StrictReplicas> strict;
  DelayCompensation compensation(*optimizer, {.worker = place.number, .lambda = flags.delay_compensation});
  Node* step_op = nullptr;
  if (flags.strict) {
    strict.emplace(graph, *optimizer, StrictReplicasOptions{.num_shards = flags.shards, .worker = place.device});
    step_op = strict->minimize(model.loss, global_step);
    replica_hooks.push_back(SyncReplicasHook(*strict, place.is_chief()));
  } else if (flags.is_sync) {
    step_op = replicas.apply_gradients(gradients(replicas, model, global_step, place, flags), global_step);
    replica_hooks.push_back(SyncReplicasHook(replicas, place.is_chief()));
  } else {
    Optimizer& late = flags.delay_compensation > 0 ? compensation : *optimizer;
    step_op = late.apply_gradients(gradients(late, model, global_step, place, flags), global_step);
  }

  // It ends after the chief's hook: when the last counts are read no gradient is applied any more.
  if (flags.log_gradients > 0 && place.is_chief()) {
    hooks.push_back(
        GradientLedgerHook({.devices = parameter_servers(place.cluster), .every_n_steps = flags.log_gradients}));
  }

  // The chief initialises the variables, or restores them from a checkpoint, and saves them; the others wait for it.
  // When a task is lost, the session waits until it is back and goes on.
  // Workers have nothing to say to each other: one that has ended, or is not there yet, keeps nobody waiting.
  ConnectOptions connection;
  connection.device_filters = {"/job:ps", place.device};
  // The master is this process's own server: no message to it leaves the process.
  const auto in_this_process = [&](Graph& g) { return server.connect(g, connection); };
  MonitoredTrainingSession session(graph, {.master = server.target(),
                                           .is_chief = place.is_chief(),
                                           .checkpoint_dir = flags.checkpoint_dir,
                                           .hooks = hooks,
                                           .chief_only_hooks = chief_hooks,
                                           .save_checkpoint_steps = flags.save_steps,
                                           .config = {.connect = in_this_process},
                                           .log_step_count_steps = 0});
  Progress progress(flags.log_steps, flags.train_steps);
  std::optional<Tensor> claim;  // strictly: what this worker computes next
  session.loop([&] {
    std::vector<TensorName> fetches = {model.loss, global_step};
    Feeds feeds;
    if (strict) {
      if (!claim) claim = session.run({}, {strict->claim()})[0];
      if (session.should_stop()) return;
      feeds = model.feeds(feeder.of_claim(*claim));
      feeds.emplace_back(strict->claim(), *claim);
      fetches.emplace_back(strict->next_claim());
    } else {
      feeds = model.feeds(feeder.next());
    }
    const auto values = session.run(feeds, fetches, {step_op});
    if (strict) claim = values[2];
    progress.show(values[1].scalar<std::int64_t>(), values[0].scalar<float>());
  });

  if (!place.is_chief()) return;
  progress.summarise();
  if (!flags.evaluate) return;
  const auto after = server.connect(graph, connection).value_or_throw();
  std::printf("test accuracy %.1f %%\n", 100 * test_accuracy(*after, model, test_digits()));
}

int run(const Flags& flags) {
  if (flags.log_gradients > 0 && !flags.is_sync && !flags.strict) {
    throw_error(invalid_argument("--log_gradients=", flags.log_gradients,
                                 " without --is_sync or --strict: else nobody counts gradients"));
  }
  ServerOptions task = this_task(flags);
  task.log = log_to_stderr(flags.log_cluster ? LogLevel::kInfo : LogLevel::kWarning);
  const std::unique_ptr<Server> server = Server::start(task).value_or_throw();
  if (task.job == "ps") {
    server->join();
  } else {
    train(*server, Place(task), flags);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains on digits with parameter servers and workers.");
  Flags flags;
  add_flags(app, flags);
  add_network_flags(app, flags);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(flags);
  } catch (const Error& error) {
    std::fprintf(stderr, "distributed_mnist: %s\n", error.what());
    return 1;
  }
}
