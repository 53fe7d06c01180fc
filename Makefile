# Two commands for a fresh machine, and the rest in `cargo xtask`.
#
#   make demo    builds Pelton and runs the Star Schema Benchmark with it
#   make test    everything that CI runs
#
# For GPUs: make cuda, make bundle.

CARGO ?= cargo
PYTHON ?= python3
PELTON = $(or $(CARGO_TARGET_DIR),target)/release/pelton
# Substrait plans are read where protoc is there to build with, and the types that it imports: Debian packs those apart.
HAS_PROTOC = protoc=$$(command -v protoc) && test -e "$$(dirname "$$protoc")/../include/google/protobuf/any.proto"
FEATURES = $(if $(shell $(HAS_PROTOC) && echo yes),--features substrait)
DEMO = bench queries ssb --scale 1 --dir build/demo --cluster-by d_year,s_region,c_region

.DEFAULT_GOAL := help
.PHONY: help demo test build cuda bundle clean need-cargo need-cc need-cxx need-python need-protoc

help:
	@echo 'make demo    build, generate the Star Schema Benchmark (scale 1), load it, run its 13 queries'
	@echo 'make test    everything that CI runs: format, tidy, clippy, tests, README, answers beside DuckDB'
	@echo 'make build   build $(PELTON)'
	@echo 'make cuda    build build/cuda/libpelton_cuda.so, with nvcc from PyPI where there is none'
	@echo 'make bundle  an archive for a GPU machine without Rust: command, CUDA library, tests'
	@echo 'make clean   remove build output, demo and test data'

demo: build
	$(PELTON) $(DEMO)
	@echo
	@echo 'Next, with your own file:'
	@echo '  export PATH="$(abspath $(dir $(PELTON))):$$PATH"'
	@echo "  pelton sql \"SELECT count(*) FROM 'file.parquet'\""
	@echo '  pelton load --table t file.parquet && pelton sql --profile profile.html "SELECT count(*) FROM t"'

build: need-cargo need-cc
	$(CARGO) build --release --locked -p pelton-cli $(FEATURES)

test: need-cargo need-cc need-python need-cxx need-protoc
	$(CARGO) xtask test

cuda: need-cargo need-cc need-python need-cxx
	$(CARGO) xtask cuda

bundle: need-cargo need-cc need-python need-cxx
	$(CARGO) xtask bundle

clean: need-cargo
	$(CARGO) clean
	rm -rf build

# $(call install,WHAT,DEBIAN PACKAGES,FEDORA PACKAGES): as root it is done, otherwise it is said.
define install
{ echo '$(1) is missing.'; \
  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
    apt-get update -q && apt-get install -q -y --no-install-recommends $(2); \
  elif [ "$$(id -u)" = 0 ] && command -v dnf >/dev/null; then \
    dnf install -q -y $(3); \
  else \
    echo 'Install it with'; \
    echo '  sudo apt-get install $(2)    (Debian, Ubuntu)'; \
    echo '  sudo dnf install $(3)    (Fedora)'; \
    exit 1; \
  fi; }
endef

need-cargo:
	@command -v $(CARGO) >/dev/null || { \
	  echo 'Rust is missing. Install it with'; \
	  echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"; \
	  echo 'and open a new shell. A distribution package will do if it has Rust 1.95 or later.'; \
	  exit 1; }

# zstd, libdeflate and mimalloc are C; Rust itself links with cc.
need-cc:
	@command -v cc >/dev/null || $(call install,A C compiler,gcc libc6-dev,gcc)

# nvcc compiles the host side of the CUDA library with g++.
need-cxx:
	@command -v c++ >/dev/null || $(call install,A C++ compiler,g++,gcc-c++)

# The form of Substrait's plans is a protobuf definition, which is compiled.
need-protoc:
	@{ $(HAS_PROTOC); } || $(call install,The protobuf compiler,protobuf-compiler libprotobuf-dev,protobuf-compiler protobuf-devel)

# Answers are compared with DuckDB's, and stores are played, in Python environments of their own below build.
need-python:
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || $(call install,Python 3 with its venv module,python3 python3-venv,python3)
