// Images of digits: drawn here from a seed, or read from MNIST's files.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/core/file_system.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti {

inline constexpr int kDigitSide = 28;
inline constexpr int kDigitPixels = kDigitSide * kDigitSide;
inline constexpr int kDigitClasses = 10;

struct DigitSet {
  Tensor images;  // float [n, 784], 0 (paper) to 1 (ink)
  Tensor labels;  // int64 [n], 0 to 9

  std::int64_t size() const { return labels.num_elements(); }
};

struct DigitSplit {
  DigitSet train;
  DigitSet test;
};

// Draws `count` digits, classes in random order: strokes of varying shape, width and darkness under a random
// affine map, with noise and specks. Image i depends on `seed` and i alone. A linear model gets about nine in
// ten of them right, a small MLP nearly all.
DigitSet draw_digits(std::int64_t count, std::uint64_t seed);

// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte and the t10k files, each plain or with ".gz", from
// `directory`. Errors name the file: missing, not IDX, not 28x28 bytes, counts that differ, labels over 9.
Result<DigitSplit> load_mnist(FileSystem& fs, const std::string& directory);

}  // namespace tutti
