# The front door. Everything happens under build/; programs land in build/<preset>/bin/.

BIN := build/release/bin
PEERS := build/peers/bin/python

# Real data sets, where they lie beside the repository; tests that need them skip otherwise.
ifeq ($(TUTTI_DATA_DIR),)
ifneq ($(wildcard ../shared/data),)
TEST_ENV := TUTTI_DATA_DIR=$(abspath ../shared/data)
endif
endif

# What the sanitizer runs build (nothing said: everything) and, as ctest's -R, which tests they take. Under tsan only
# what has threads is worth its time; training's arithmetic is never, nor the memory and time that tests of whole
# processes (cluster_faults, cluster_abuse, recovery) measure.
ASAN_TARGETS ?=
ASAN_FILTER ?= .
ASAN_ENV := LSAN_OPTIONS=suppressions=$(abspath tests/lsan_suppressions)
TSAN_TARGETS ?= core_test kernels_test runtime_test integration_test transport_test distributed_test
TSAN_FILTER ?= ^(core|kernels|runtime|integration|transport|distributed)$$
# protobuf's maps have another layout under tsan than in Debian's library: what compares with them is left out.
TSAN_ENV := GTEST_FILTER=-Codec.*
FUZZ_SECONDS ?= 600
FUZZED ?= graph_def bundle checkpoint_state event image parse record messages tf_config hello shm_message key idx
# Cases that are drawn for each op and compared with TensorFlow's results, how many of them at least must say something,
# and the seed that they come from.
DRAWN_CASES ?= 3
DRAWN_AT_LEAST ?= 1
DRAWN_SEED ?= 1
# Graphs whose placement is compared with TensorFlow's, and the seed that they come from.
PLACED_GRAPHS ?= 60
PLACED_SEED ?= 1
# Steps that the models of TensorFlow are trained for.
MODEL_STEPS ?= 50

.PHONY: demo build test bench interop cluster cluster_reference drawn models docs asan tsan soak lint clean setup
.DEFAULT_GOAL := build

setup:
	@scripts/setup

build: setup
	@cmake --preset release >/dev/null
	@cmake --build build/release

demo: setup
	@cmake --preset release >/dev/null
	@cmake --build build/release --target tutti_program distributed_mnist
	@scripts/demo $(BIN)

test: build
	@cd build/release && $(TEST_ENV) ctest --output-on-failure $(CTEST_FLAGS)

bench: setup
	@cmake --preset release -DTUTTI_BENCHMARKS=ON >/dev/null
	@cmake --build build/release
	@$(TEST_ENV) benchmarks/run

# Several checks at a time, the longest first; those that start clusters run by themselves, after.
TOOL_CHECKS := check_checkpoints check_events check_savers check_hooks check_wire check_cut check_optimizers \
  check_sync_replicas check_placement
CHECKS := drawn models check_cases check_scripts check_op_dtypes check_op_table check_text check_errors $(TOOL_CHECKS)
.PHONY: $(CHECKS)
interop: build build/peers/installed
	@$(MAKE) --no-print-directory --output-sync=target -j2 $(filter-out check_placement,$(CHECKS))
	@$(MAKE) --no-print-directory check_placement
	@$(TEST_ENV) $(PEERS) tests/interop/seed/distributed_mnist.py
	@$(MAKE) --no-print-directory cluster

check_cases: build build/interop/cases.done
	@$(BIN)/interop_runner build/interop/cases
check_scripts: build build/interop/cases.done
	@$(BIN)/script_runner build/interop/scripts
check_op_table check_op_dtypes: build/interop/op_table.json build/peers/installed
	@$(PEERS) tests/interop/$@.py <$<
check_text check_errors: check_%: build build/peers/installed
	@$(PEERS) tests/interop/$@.py $(BIN)/graph_runner build/interop/$*
check_checkpoints: TOOL := checkpoint_tool
check_events: TOOL := event_tool
check_savers: TOOL := saver_tool
check_hooks: TOOL := hooks_tool
check_wire: TOOL := wire_tool proto
check_placement: TOOL := placement_tool --graphs $(PLACED_GRAPHS) --seed $(PLACED_SEED)
check_cut: TOOL := cut_runner
check_optimizers: TOOL := optimizer_tool
check_sync_replicas: TOOL := sync_replicas_tool
$(TOOL_CHECKS): build build/peers/installed
	@$(PEERS) tests/interop/$@.py $(BIN)/$(TOOL)

build/interop/op_table.json: build
	@mkdir -p build/interop
	@$(BIN)/op_table_dump >$@

drawn: build/interop/op_table.json build/peers/installed
	@$(PEERS) tests/interop/drawn/generate.py build/interop/drawn --seed $(DRAWN_SEED) --cases $(DRAWN_CASES) \
	  --at-least $(DRAWN_AT_LEAST) <$<
	@$(BIN)/drawn_runner build/interop/drawn

# Whole models as TensorFlow writes them: loss, gradients, and MODEL_STEPS of training.
models: build build/interop/models.done
	@$(BIN)/model_runner build/interop/models "" $(MODEL_STEPS)

build/interop/models.done: build/peers/installed $(wildcard tests/interop/models/*.py)
	@$(PEERS) tests/interop/models/generate.py build/interop/models
	@touch $@

build/interop/cases.done: build/peers/installed $(wildcard tests/interop/*.py)
	@$(PEERS) tests/interop/generate_cases.py build/interop/cases
	@$(PEERS) tests/interop/generate_scripts.py build/interop/scripts
	@touch $@

build/peers/installed: tests/interop/requirements.txt
	@scripts/setup
	@python3 -m venv build/peers
	@$(PEERS) -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

build/peers_new/installed: tests/interop/requirements_new.txt
	@scripts/setup
	@python3 -m venv build/peers_new
	@build/peers_new/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# A mixed cluster: one program of each kind that moves tensors, state, gradients and errors between the two systems.
MIXED := seed_three|training_(ref|resource)|while_v1_gradient|values_variants|while_v2_gradient|accumulators|error_first|partial_run$$|session_saver

# TensorFlow clients of two versions against a cluster of Tutti's servers, and one against mixed ones; cluster_reference:
# against TensorFlow's own.
cluster: build build/peers/installed build/peers_new/installed
	@python3 tests/interop/cluster/run.py --servers tutti $(CLUSTER_FLAGS)
	@python3 tests/interop/cluster/run.py --servers tutti --client-python build/peers_new/bin/python $(CLUSTER_FLAGS)
	@python3 tests/interop/cluster/run.py --servers ps=tutti,worker=tensorflow --only '$(MIXED)'
	@python3 tests/interop/cluster/run.py --servers ps=tensorflow,worker=tutti --only '$(MIXED)'

cluster_reference: build/peers/installed
	@python3 tests/interop/cluster/run.py --servers tensorflow $(CLUSTER_FLAGS)

docs: build
	@scripts/op_docs $(BIN)/op_table_dump docs/ops.md

asan tsan:
	@scripts/setup $(if $(filter asan,$@),--dev)
	@cmake $(if $(filter asan,$@),--fresh) --preset $@ >/dev/null
	@cmake --build build/$@ $(if $(filter tsan,$@),--target $(TSAN_TARGETS),$(if $(ASAN_TARGETS),--target $(ASAN_TARGETS)))
	@cd build/$@ && $(TEST_ENV) $(if $(filter tsan,$@),$(TSAN_ENV),$(ASAN_ENV)) OMP_NUM_THREADS=$(if $(filter tsan,$@),1,2) \
	  ctest --output-on-failure -R '$(if $(filter asan,$@),$(ASAN_FILTER),$(TSAN_FILTER))' -E '^(demo_|cluster_|training_|recovery)' $(CTEST_FLAGS)

# TUTTI_STRESS multiplies the steps of the tests that race threads: 20 makes them 10,000 on each of 8 threads.
soak: build
	@scripts/setup --dev
	@cd build/release && $(TEST_ENV) TUTTI_STRESS=20 ctest --output-on-failure
	@timeout 600 $(BIN)/simulate 50000 1 & first=$$!; timeout 600 $(BIN)/simulate 50000 50001 && wait $$first
	@$(MAKE) --no-print-directory interop DRAWN_CASES=24 DRAWN_AT_LEAST=20 MODEL_STEPS=300 PLACED_GRAPHS=2000
	@TUTTI_STRESS=20 $(MAKE) --no-print-directory tsan
	@$(MAKE) --no-print-directory asan
	@cmake --preset fuzz >/dev/null
	@cmake --build build/fuzz --target $(FUZZED:=_fuzzer) $(FUZZED:=_seeds)
	@for name in $(FUZZED); do scripts/fuzz $${name}_fuzzer $(FUZZ_SECONDS) || exit 1; done

lint:
	@scripts/setup --dev
	@scripts/lint

clean:
	rm -rf build
