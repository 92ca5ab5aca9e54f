// Strict replicas as processes: jobs of one, two and four workers come to the same bits.
#include <gtest/gtest.h>

#include <map>

#include "tests/core/temp_directory.h"
#include "tests/integration/process_cluster.h"
#include "tutti/core/strings.h"
#include "tutti/train/checkpoint_reader.h"

namespace tutti::strict_test {

using Values = std::map<std::string, Tensor>;

// Trains to `steps` or somewhat beyond: another worker may have finished a step before the chief sees the end.
Values train(int workers, std::int64_t steps, const std::string& directory) {
  ChildProcess job(tutti_command("run", {"--ps", "2", "--workers", std::to_string(workers), "--threads", "1",
                                         TUTTI_DISTRIBUTED_MNIST, "--strict", "--shards=4", "--batch_size=8",
                                         "--digits=400", str_cat("--train_steps=", steps), "--log_steps=0",
                                         "--save_steps=1000000", "--no-evaluate", "--checkpoint_dir=" + directory}),
                   {"TF_CONFIG", "TUTTI_DATA_DIR", "TUTTI_THREADS"});
  EXPECT_EQ(job.wait(std::chrono::seconds(180)), 0) << job.output();
  Values values;
  const auto reader = load_checkpoint(directory);
  for (const auto& variable : reader->variables()) values[variable.name] = reader->read(variable.name).value_or_throw();
  return values;
}

std::int64_t step_of(const Values& values) { return values.at("global_step").scalar<std::int64_t>(); }

TEST(Strict, TheSameBitsFromOneTwoAndFourWorkerProcesses) {
  std::map<std::int64_t, std::vector<std::pair<int, Values>>> runs;  // by the step at which they ended
  for (const int workers : {2, 4}) {
    TempDirectory directory;
    Values values = train(workers, 12, directory.path());
    runs[step_of(values)].emplace_back(workers, std::move(values));
  }
  // One worker ends exactly where it is told to, and goes on from there.
  TempDirectory directory;
  for (const auto& [step, others] : runs) {
    EXPECT_GE(step, 12);
    const Values one = train(1, step, directory.path());
    ASSERT_EQ(step_of(one), step);
    for (const auto& [workers, values] : others) {
      ASSERT_EQ(values.size(), one.size());
      for (const auto& [name, value] : one) {
        EXPECT_TRUE(bitwise_equal(values.at(name), value)) << name << " of " << workers << " workers at step " << step;
      }
    }
  }
}

}  // namespace tutti::strict_test
