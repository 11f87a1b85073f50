# Makefile - a short front for the build: `make demo` and `make test` are all a newcomer needs
#
# CMake builds everything in build/ (sanitizers and fuzzers in build-*/). scripts/engine.sh builds the engine once, in a
# cache directory outside the checkout. Variables: HEARTH_CUDA=1, HEARTH_VULKAN=1, HEARTH_METAL=1, HEARTH_RPC=0,
# HEARTH_PORTABLE=1, LLAMA_CPP_DIR=..., JOBS=N, PREFIX=/usr/local, LIBDIR=lib, CMAKE_FLAGS=...

JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
PREFIX ?= /usr/local
# Below PREFIX, the same on every system. For a package: LIBDIR=lib64, LIBDIR=lib/x86_64-linux-gnu.
LIBDIR ?= lib
BUILD ?= build
FUZZ_SECONDS ?= 120
# Most tests of servers wait for processes, so more of them run than there are processors.
CTEST_FLAGS ?= -j$(shell expr 2 \* $(JOBS))
export HEARTH_CUDA HEARTH_VULKAN HEARTH_METAL HEARTH_RPC HEARTH_PORTABLE LLAMA_CPP_DIR

# In continuous integration a warning is an error.
ifdef CI
CMAKE_FLAGS += -DHEARTH_WERROR=ON
endif

MAKEFLAGS += --no-print-directory

all: build

deps:
	@scripts/deps.sh

# $(call configure,directory,flags)
define configure
	@engine=$$(scripts/engine.sh) && cmake -S . -B $(1) -DHEARTH_ENGINE="$$engine" -DCMAKE_INSTALL_PREFIX=$(PREFIX) \
	  -DCMAKE_INSTALL_LIBDIR=$(LIBDIR) $(CMAKE_FLAGS) $(2) >$(1).configure.log 2>&1 || { cat $(1).configure.log; exit 1; }
	@rm -f $(1).configure.log
endef

build: deps
	$(call configure,$(BUILD),)
	@cmake --build $(BUILD) --parallel $(JOBS)

# Builds only the programs of the demo.
demo: deps
	$(call configure,$(BUILD),)
	@cmake --build $(BUILD) --parallel $(JOBS) --target hearth >$(BUILD)/demo.log || { cat $(BUILD)/demo.log; exit 1; }
	@scripts/demo.sh $(BUILD)

test: build
	@scripts/deps.sh --tests
	@cd $(BUILD) && ctest --output-on-failure --no-tests=error $(CTEST_FLAGS)

# $(call test,directory,selection) runs the tests that ctest selects so, after it has built what they need.
define test
	@cmake -S . -B $(1) >$(1)/cmake.log 2>&1 || { cat $(1)/cmake.log; exit 1; }
	@targets=$$(cd $(1) && ctest -N $(2) | sed -n 's/^ *Test *#[0-9]*: *//p' | \
	  awk -f $(CURDIR)/scripts/test_programs.awk - tests/CTestTestfile.cmake bench/CTestTestfile.cmake | sort -u) && \
	  cmake --build $(1) --parallel $(JOBS) --target hearth $$targets
	@cd $(1) && ctest --output-on-failure --no-tests=error $(CTEST_FLAGS) $(2)
endef

$(BUILD)/CMakeCache.txt:
	@scripts/deps.sh
	$(call configure,$(BUILD),)

# The unit and property tests that take a few seconds at most: for each change. tests/labels.cmake names the others.
check: $(BUILD)/CMakeCache.txt
	$(call test,$(BUILD),-L quick -R '^(unit|property)/')

# The tests whose names match a regular expression: make t T=unit/index
t: $(BUILD)/CMakeCache.txt
	@[ -n "$(T)" ] || { echo "which tests? make t T=unit/index"; exit 1; }
	$(call test,$(BUILD),-R '$(T)')

# A few tests on Mesa's Vulkan device, a GPU that the CPU computes. `make test` leaves them out, because the engine's
# shaders take long to compile, once.
vulkan-test: export HEARTH_VULKAN = software
vulkan-test:
	@scripts/deps.sh --software-gpu
	$(call configure,build-vulkan,)
	@cmake --build build-vulkan --parallel $(JOBS) --target hearth make_model test_vectors
	@cd build-vulkan && VK_DRIVER_FILES=$$(ls /usr/share/vulkan/icd.d/lvp_icd*.json | head -n 1) GGML_VK_VISIBLE_DEVICES=0 \
	  HTH_TEST_WORDS=40 HTH_TEST_F16_ONLY=1 ctest --output-on-failure --no-tests=error -R '^gpu/'

# The same tests with our code instrumented, without the engine. The quick ones are what continuous integration has time
# for: quick tests, and those that have threads of their own.
asan-quick: SELECTION = -L quick -LE agents
asan asan-quick: deps
	$(call configure,build-asan,-DHEARTH_SANITIZE=address$(comma)undefined -DCMAKE_BUILD_TYPE=Debug)
	@cmake --build build-asan --parallel $(JOBS)
	@cd build-asan && ctest --output-on-failure --no-tests=error $(CTEST_FLAGS) $(SELECTION)

tsan-quick: SELECTION = -L threads -LE slow
tsan tsan-quick: export TSAN_OPTIONS := suppressions=$(CURDIR)/tests/tsan.supp $(TSAN_OPTIONS)
tsan tsan-quick: deps
	$(call configure,build-tsan,-DHEARTH_SANITIZE=thread -DCMAKE_BUILD_TYPE=Debug)
	$(call test,build-tsan,$(SELECTION))

fuzz: deps
	$(call configure,build-fuzz,-DHEARTH_FUZZ=ON -DHEARTH_SANITIZE=address$(comma)undefined -DCMAKE_C_COMPILER=clang \
	  -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo)
	@cmake --build build-fuzz --parallel $(JOBS) --target fuzzers
	@scripts/fuzz.sh build-fuzz $(FUZZ_SECONDS)

lint: deps
	$(call configure,$(BUILD),)
	@scripts/lint.sh $(BUILD)

format:
	@git ls-files '*.c' '*.h' '*.cpp' | xargs clang-format -i

# Records the instructions of hot paths anew, which the test bench/counted compares.
counts: build
	@bench/counted.sh $(BUILD) --write

# Hearth beside llama-server; writes docs/benchmarks. PARTS='...' and QUICK=1: see bench/suite.sh.
bench: build
	@bench/suite.sh $(BUILD)

# The pictures of the documents, from the tests that look at the same things.
pictures: build
	@scripts/deps.sh --browser
	@for test in page dashboard pictures; do \
	  PICTURES=$(CURDIR)/docs/pictures tests/e2e/$${test}_test.sh $(BUILD) . || exit 1; \
	done

# Installs the last build, so that root neither builds nor fetches anything. PREFIX may differ from that of the build,
# LIBDIR may not. DESTDIR=... comes before all paths.
install:
	@[ -x $(BUILD)/hearth ] && ls $(BUILD)/libhearth.* >/dev/null 2>&1 || { echo "run 'make' first, then 'make install'"; exit 1; }
	@rm -f $(BUILD)/install_manifest.txt # it may be root's, after `sudo make install`
	@cmake --install $(BUILD) --prefix $(PREFIX)

# Debian packages, for every processor of this architecture, in build-deb/packages. The second target installs, runs and
# removes them in a new Debian system, which is gone afterwards.
deb: export HEARTH_PORTABLE = 1
deb: PREFIX = /usr
deb: LIBDIR = lib/$(shell dpkg-architecture -qDEB_HOST_MULTIARCH)
deb: deps
	@scripts/deps.sh --packages
	$(call configure,build-deb,-DBUILD_TESTING=OFF)
	@cmake --build build-deb --parallel $(JOBS) --target hearth hearth_shared hearth_static hearth_notice
	@scripts/deb.sh build-deb

deb-test: deb
	@scripts/deps.sh --package-tests
	@tests/packages/deb_test.sh build-deb/packages

# Removes the files that `make install` with the same PREFIX and DESTDIR put there, and nothing else.
uninstall:
	@scripts/uninstall.sh $(DESTDIR)$(PREFIX)

help:
	@sed -nE 's/^([a-z -]+):([^=].*|)$$/\1/p' Makefile | tr ' ' '\n' | awk '!seen[$$0]++ { print "  make " $$0 }'

clean:
	rm -rf build build-asan build-tsan build-fuzz build-vulkan build-deb *.configure.log

comma := ,
.PHONY: help all deps build demo test check t vulkan-test asan asan-quick tsan tsan-quick fuzz lint format counts \
  bench pictures install deb deb-test uninstall clean
