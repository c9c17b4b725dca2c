# The two commands that matter: `make demo` and `make test`.

CARGO ?= cargo
FUZZ_SECONDS ?= 60
FABRISCOPE = $(CARGO) run --release --quiet --package fabriscope-cli --
# Half a minute and 3 GB each time: left to `make test-long` and `make bench`.
LONG_LABS = labs/dragonfly-max.toml labs/dragonfly-max-flow.toml
LABS = $(filter-out $(LONG_LABS), $(sort $(wildcard labs/*.toml)))

.PHONY: help demo test test-long bench build format-check lint unit docs validate labs fuzz clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       the tutorial exercise on two simulated nodes, beside the published figures"
	@echo "make test       everything that the continuous integration runs"
	@echo "make test-long  the same with ten times the random cases, ten minutes of fuzzing, the largest labs and collectives"
	@echo "make bench      how fast the simulator is"
	@echo "make build      the program, target/release/fabriscope"

build:
	@$(CARGO) build --release --quiet --package fabriscope-cli

demo:
	@echo "building (about two minutes the first time) ..." >&2
	@$(MAKE) --no-print-directory build
	@$(FABRISCOPE) demo

test: format-check lint unit docs validate labs fuzz
	@echo "all checks passed"

format-check:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

unit:
	$(CARGO) test --workspace --quiet

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

validate: build
	$(FABRISCOPE) parts --check
	$(FABRISCOPE) validate

# Two runs of a lab give the same bytes.
labs: build
	@set -e; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	for lab in $(LABS); do \
		$(FABRISCOPE) run "$$lab" --json > "$$scratch/first.json"; \
		$(FABRISCOPE) run "$$lab" --json > "$$scratch/second.json"; \
		cmp "$$scratch/first.json" "$$scratch/second.json"; \
		echo "$$lab: two runs, the same bytes"; \
	done

fuzz:
	FABRISCOPE_FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --quiet --package fabriscope-cli --test fuzz

test-long:
	PROPTEST_CASES=2560 $(MAKE) test FUZZ_SECONDS=600
	$(CARGO) test --workspace --release --quiet -- --include-ignored
	$(MAKE) labs LABS="$(LONG_LABS)"
	$(FABRISCOPE) validate --long csd3-opa-imb-alltoall athena-edr-imb-alltoall

bench: build
	$(CARGO) bench --workspace --quiet
	@set -e; for lab in $(LABS) $(LONG_LABS); do $(FABRISCOPE) run "$$lab" --stats; done

clean:
	$(CARGO) clean
