# The two commands that matter: `make demo` and `make test`.

CARGO ?= cargo
FUZZ_SECONDS ?= 10
# Random cases of each property; `make test-long` takes many more.
export PROPTEST_CASES ?= 32
FABRISCOPE = $(CARGO) run --release --quiet --package fabriscope-cli --
# Half a minute and 3 GB each time: left to `make test-long` and `make bench`.
LONG_LABS = labs/dragonfly-max.toml labs/dragonfly-max-flow.toml
LABS = $(filter-out $(LONG_LABS), $(sort $(wildcard labs/*.toml)))

.PHONY: help demo page test test-long bench bless build capi rootfs checked format format-check lint unit docs validate golden examples python python-stubs wheel model-changes fuzz clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       the tutorial exercise on two simulated nodes, beside the published figures"
	@echo "make test       everything that the continuous integration runs"
	@echo "make test-long  the same with forty times the random cases, ten minutes of fuzzing, the largest labs and collectives"
	@echo "make bless      write the pinned outputs of tests/golden and of the documents anew; each change needs a line under Model changes in CHANGELOG.md"
	@echo "make page       reports and pages of results in Debian's Chromium: valid HTML, accessibility, no network, no error"
	@echo "make bench      how fast the simulator is"
	@echo "make build      the program, target/release/fabriscope"
	@echo "make wheel      the Python package, target/wheels/fabriscope-*.whl"
	@echo "make rootfs     what containers/Containerfile has, without a container engine, target/rootfs"
	@echo "make capi       the library for other simulators, target/release/libfabriscope_c.so and .a; its header is crates/capi/include/fabriscope.h"

build:
	@$(CARGO) build --release --quiet --package fabriscope-cli

# Named here, as a library of Rust beside them would keep them from being joined (`lto`).
capi:
	@$(CARGO) rustc --release --quiet --package fabriscope-capi --lib --crate-type cdylib,staticlib

# The root file system of the image, of this machine's packages: containers/rootfs.sh run target/rootfs --on ri2 -- ibv_devinfo
rootfs: build
	@rm -rf target/rootfs
	containers/rootfs.sh build target/rootfs target/release/fabriscope

demo:
	@echo "building (some minutes the first time) ..." >&2
	@$(MAKE) --no-print-directory build
	@$(FABRISCOPE) demo

test: format-check lint unit docs validate golden examples python page model-changes fuzz
	@echo "all checks passed"

# Files of algorithms are named in tables (`family!`, `algorithms!`), where `cargo fmt` does not see them; rustfmt is given all.
RUST_FILES = $(shell git ls-files '*.rs')

format:
	rustfmt --edition 2024 $(RUST_FILES)

format-check:
	@rustfmt --edition 2024 --check $(RUST_FILES)

lint:
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

unit:
	$(CARGO) test --workspace --quiet

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

# What the tests run: the program as they build it, with overflows and assertions looked at, half as fast as the release. Its figures are the same.
CHECKED = target/debug/fabriscope
# Built for the whole workspace, as the unit tests are: for one package alone features differ, and all would be built again.
checked:
	@$(CARGO) test --workspace --no-run --quiet

# Every published table is within its limits; tests/golden pins each predicted value, so the tables are run once, there.
validate: checked
	$(CHECKED) parts --check
	@if grep -l '^# exit status' tests/golden/*/*.txt; then echo "these outputs are pinned with a failure" >&2; exit 1; fi

# What the program prints for every lab, every published table and every example is what it printed yesterday.
golden: checked
	tests/golden/run.sh check $(CHECKED)

# The examples of all help pages end well.
examples: checked
	tests/examples.sh $(CHECKED)

# The Python package around the module that is built with the unit tests.
VENV = target/python
$(VENV)/done: python/requirements-test.txt
	@python3 -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check -r python/requirements-test.txt
	@touch $@

python: checked $(VENV)/done
	@cp target/debug/deps/lib_fabriscope.so python/fabriscope/_fabriscope.abi3.so
	PYTHONPATH=python $(VENV)/bin/python -m pytest

# The stubs of the compiled module, from the module itself.
python-stubs: $(VENV)/done
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check "maturin>=1.9,<2"
	$(VENV)/bin/maturin generate-stubs --profile dev --quiet --out target/stubs
	cp target/stubs/fabriscope/_fabriscope.pyi python/fabriscope/_fabriscope.pyi

# What `pip install` takes: target/wheels/fabriscope-*.whl.
wheel: $(VENV)/done
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check "maturin>=1.9,<2"
	$(VENV)/bin/maturin build --release --quiet --out target/wheels

# What `diagnose` says rests on the errors of the pinned tables, which the program has in it.
bless: build
	tests/golden/run.sh bless target/release/fabriscope
	UPDATE_GOLDEN=1 $(CARGO) test --quiet --package fabriscope-diagnose --test suite errors::
	@$(MAKE) build
	tests/golden/run.sh bless target/release/fabriscope diagnose/
	UPDATE_GOLDEN=1 $(CARGO) test --quiet --package fabriscope-cli --test suite documents::
	UPDATE_GOLDEN=1 $(CARGO) test --quiet --package fabriscope-traces --test suite

# Reports and pages in Chromium (apt-get install chromium nodejs npm).
page: checked
	tests/page/run.sh $(CHECKED)

model-changes:
	tests/golden/model_changes.sh

fuzz:
	FABRISCOPE_FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --workspace --quiet --test fuzz

test-long:
	PROPTEST_CASES=2560 $(MAKE) test FUZZ_SECONDS=600
	$(CARGO) test --workspace --release --quiet -- --include-ignored
	$(MAKE) build
	GOLDEN_LONG=1 tests/golden/run.sh check target/release/fabriscope
	THREADS_LONG=1 tests/threads.sh target/release/fabriscope
	$(VENV)/bin/pip install --quiet --disable-pip-version-check "dask[distributed]>=2024.1"
	FABRISCOPE_LONG=1 PYTHONPATH=python $(VENV)/bin/python -m pytest
	EXAMPLES_LONG=1 tests/examples.sh target/release/fabriscope
	tests/timelines/check.sh target/release/fabriscope
	$(MAKE) capi
	cc -std=c11 -Icrates/capi/include crates/capi/examples/embed.c target/release/libfabriscope_c.a -lm -lpthread -ldl -o target/embed
	target/embed | diff - crates/capi/tests/embed.txt
	$(FABRISCOPE) validate --long csd3-opa-imb-alltoall athena-edr-imb-alltoall

bench: build
	$(CARGO) bench --workspace --quiet
	@set -e; for lab in $(LABS); do $(FABRISCOPE) run "$$lab" --stats; done

clean:
	$(CARGO) clean
