// The protocol of benchmarks/run: a program that steps for as long as it is told, when it is told.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <type_traits>

#include "tutti/core/status.h"

namespace tutti::bench {

// Steps a second over about `seconds`.
template <typename Step>
double measure(const Step& step, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  int steps = 0;
  while (elapsed() < seconds) {
    for (int i = 0; i < 4; ++i) step();
    steps += 4;
  }
  return steps / elapsed();
}

// The life of a program that steps: warms the step that `make()` gives, prints `ready`, then answers each line of
// standard input, a number of seconds, with steps/s. A step that goes wrong throws Error.
template <typename Make>
int serve(const Make& make) {
  try {
    const auto step = make();
    measure(step, 1.0);
    std::puts("ready callable");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      std::printf("%.3f\n", measure(step, std::atof(line.c_str())));
      std::fflush(stdout);
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// main() of `NAME BATCH THREADS`: serves the steps of the model that `make(batch, threads)` gives, whose loss must be a
// number and stay below the first one.
template <typename Make>
int serve_training(int argc, char** argv, const char* name, const Make& make) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s BATCH THREADS\n", name);
    return 2;
  }
  return serve([&] {
    using Model = typename std::invoke_result_t<Make, std::int64_t, int>::element_type;
    std::shared_ptr<Model> model = make(std::atoll(argv[1]), std::atoi(argv[2]));
    const float first = model->step();
    return [model, first, name] {
      const float loss = model->step();
      if (!std::isfinite(loss) || loss >= 2 * first) {
        throw Error(internal_error(name, ": the loss went from ", first, " to ", loss));
      }
    };
  });
}

}  // namespace tutti::bench
