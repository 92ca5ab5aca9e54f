// The protocol of benchmarks/run: a program that steps for as long as it is told, when it is told.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>

#include "tutti/core/status.h"

namespace tutti::bench {

// Steps a second over about `seconds`; the last loss goes to `loss`.
inline double measure(const std::function<float()>& step, double seconds, float* loss) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  int steps = 0;
  while (elapsed() < seconds) {
    for (int i = 0; i < 4; ++i) *loss = step();
    steps += 4;
  }
  return steps / elapsed();
}

// main() of `NAME BATCH THREADS`: warms the model that `make(batch, threads)` gives, checks that its loss is a number
// and has fallen, prints `ready`, then answers each line of standard input, a number of seconds, with steps/s.
template <typename Make>
int serve_steps(int argc, char** argv, const char* name, const Make& make) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s BATCH THREADS\n", name);
    return 2;
  }
  try {
    auto model = make(std::atoll(argv[1]), std::atoi(argv[2]));
    const std::function<float()> step = [&] { return model->step(); };
    const float first = step();
    float loss = first;
    measure(step, 1.0, &loss);
    if (!std::isfinite(loss) || loss >= first) {
      std::fprintf(stderr, "%s: the loss went from %g to %g\n", name, first, loss);
      return 1;
    }
    std::puts("ready callable");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      std::printf("%.3f\n", measure(step, std::atof(line.c_str()), &loss));
      std::fflush(stdout);
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace tutti::bench
