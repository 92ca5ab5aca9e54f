// Included before Highway: which instruction sets loops are compiled for. AVX2 and AVX-512 cover the machines that
// train; one element at a time is the fallback on any other. Each further target would cost as much build time again.
#pragma once

#define HWY_BROKEN_EMU128 1
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// The sources are the same for every target, and instrumented loops are slow to compile: the sanitizers see AVX2.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
