# One command each. Every target installs what is missing, configures and builds by itself; run again it costs nothing.
# What they print about building goes to stderr, so the output of `make chat` is the model's alone.

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 300
ARGS ?=

build = cmake --build build/$(1) -j $(JOBS) </dev/null >&2
test = ctest --preset $(1) -j $(JOBS) </dev/null

.PHONY: help chat build test cuda asan tsan fuzz format lint
.SILENT:
help: ## list these commands
	awk -F ':.*## ' '/^[a-z ]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

chat: ## chat with the embedded model (ARGS="--temperature 0" passes flags on)
	scripts/setup.sh build
	scripts/configure.sh release OFF </dev/null >&2
	$(call build,release) --target fathom
	scripts/foreground.sh build/release/bin/fathom chat $(ARGS)

build: ## build the program: build/release/bin/fathom
	scripts/setup.sh build
	scripts/configure.sh release OFF </dev/null >&2
	$(call build,release) --target fathom

test: ## build everything and run every test
	scripts/setup.sh build test
	scripts/configure.sh release ON </dev/null >&2
	$(call build,release)
	$(call test,release)

# What a machine without a GPU can prove of a build with CUDA; scripts/gpu_check.sh does the rest on one with a GPU.
cuda_programs = fathom cuda_test ops_test device_test engine_model_test full_card_test golden_test tiny_test
cuda: ## build with CUDA (needs its toolkit): build/cuda/bin/fathom, and the checks that need no GPU
	scripts/setup.sh build test
	scripts/configure.sh cuda ON </dev/null >&2
	$(call build,cuda) --target $(cuda_programs)
	$(call test,cuda) -R '^(cuda_test|device_test|cli_device_test)$$'
	scripts/install_check.sh build/cuda

asan: ## every test under the address and undefined-behaviour sanitizers
	scripts/setup.sh build test
	scripts/configure.sh asan ON </dev/null >&2
	$(call build,asan)
	$(call test,asan)

# What runs on several threads: the pool, files' pipelines, tokenizers that share a pattern, the CPU backend's loops, ranks,
# loading, and the engine on a model.
tsan_tests = base_test partial_file_test stream_test tokenizer_test ops_test parallel_test engine_model_test \
             engine_thread_test server_test cli_serve_test
tsan: ## the tests that have threads under the thread sanitizer
	scripts/setup.sh build test
	scripts/configure.sh tsan ON </dev/null >&2
	$(call build,tsan) --target $(filter-out cli_%,$(tsan_tests)) fathom
	$(call test,tsan) -R "^($$(echo $(tsan_tests) | tr ' ' '|'))$$"

fuzz: ## run each fuzz target for FUZZ_SECONDS (300)
	scripts/setup.sh build ci
	scripts/configure.sh fuzz OFF </dev/null >&2
	$(call build,fuzz)
	scripts/fuzz.sh build/fuzz $(FUZZ_SECONDS)

format: ## reformat all sources
	scripts/setup.sh ci
	git ls-files '*.cc' '*.h' '*.inc' '*.cu' '*.cuh' | xargs clang-format -i

lint: ## what CI checks besides the tests: format, layers, headers, repository, clang-tidy
	scripts/setup.sh build test ci
	scripts/configure.sh release ON </dev/null >&2
	scripts/lint.sh
