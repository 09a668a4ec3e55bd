# make help lists the targets.

GO     ?= go
LINT   := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The benchmarks of the whole system are a module of their own.
MODULES := . $(patsubst %/go.mod,%,$(wildcard bench/go.mod))

# How long each fuzz target runs, for example FUZZTIME=1m. Empty: ten minutes, shared by all of them, and ten for each of
# the cron parser, which reads what users write.
FUZZTIME ?=
# Which of them run: a regular expression.
FUZZ ?= .
# Which benchmarks run: a regular expression.
BENCH ?= .

CHECKS   := fmt-check vet lint archtest race
CI_STEPS := test $(CHECKS) generate-check examples fuzz-short bench-once sim

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: ## the short loop: go test ./...
	$(GO) test ./...

.PHONY: check
check: $(CHECKS) ## format, vet, lint, archtest and race tests, as CI runs them

.PHONY: fmt
fmt: ## format the code (gofumpt, gci)
	@set -e; for m in $(MODULES); do (cd $$m && $(LINT) fmt -c $(CURDIR)/.golangci.yml); done

.PHONY: fmt-check
fmt-check: ## fail on code that is not formatted
	@set -e; for m in $(MODULES); do (cd $$m && $(LINT) fmt --diff -c $(CURDIR)/.golangci.yml); done

.PHONY: vet
vet: ## go vet
	@set -e; for m in $(MODULES); do (cd $$m && $(GO) vet ./...); done

.PHONY: lint
lint: ## golangci-lint
	@set -e; for m in $(MODULES); do (cd $$m && $(LINT) run -c $(CURDIR)/.golangci.yml ./...); done

.PHONY: archtest
archtest: ## the import table and the length of files
	$(GO) test ./internal/archtest

.PHONY: race
race: ## the tests under the race detector
	$(GO) test -race ./...

.PHONY: generate
generate: ## go generate ./...
	$(GO) generate ./...

.PHONY: generate-check
generate-check: ## fail if go generate changes anything
	@GO="$(GO)" ./scripts/generate-check.sh

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (default: ten minutes in all, and for each of the cron parser); FUZZ=regexp chooses
	@GO="$(GO)" ./scripts/fuzz.sh "$(FUZZTIME)" "$(or $(FUZZTIME),10m)" "$(FUZZ)"

.PHONY: fuzz-short
fuzz-short: ## each fuzz target for a few seconds, those of the cron parser for half a minute
	@GO="$(GO)" ./scripts/fuzz.sh "$(or $(FUZZTIME),3s)" "$(or $(FUZZTIME),30s)" "$(FUZZ)"

# How many times the process is killed; a quarter as many damages of each kind are done to its files.
CRASH_ROUNDS ?= 300

# How often something is done to three nodes that are processes.
CLUSTER_ROUNDS ?= 100

.PHONY: crash
crash: ## kill -9, freeze, fill and damage a real process CRASH_ROUNDS times (300), and three nodes CLUSTER_ROUNDS times (100)
	ESCAPEMENT_CRASH_ROUNDS=$(CRASH_ROUNDS) $(GO) test -count 1 -timeout 2h -v ./internal/crashtest
	ESCAPEMENT_CLUSTER_ROUNDS=$(CLUSTER_ROUNDS) $(GO) test -count 1 -timeout 2h -v ./internal/harness

# How many hours are simulated for, and the first seed. Empty: three minutes, and seeds by the clock.
# It ends at the first seed that finds something.
HOURS ?=
SEED  ?=

.PHONY: sim
sim: ## simulate clusters under faults for HOURS (default: three minutes); SEED=n begins with that seed
	ESCAPEMENT_SEED=$(SEED) ESCAPEMENT_SIM_FOR_MINUTES=$(if $(HOURS),$(shell expr $(HOURS) '*' 60),3) \
		$(GO) test -count 1 -timeout 0 -v -run '^TestSim_for_long$$' .

.PHONY: sim-mutants
sim-mutants: ## have the simulator find out what is wrong with products that lack a guard
	ESCAPEMENT_MUTANTS=1 $(GO) test -count 1 -timeout 2h -v -run '^TestMutants' ./internal/sim

.PHONY: bench
bench: ## all benchmarks, and the programs of bench/; BENCH=regexp chooses
	@GO="$(GO)" ./scripts/bench.sh full "$(BENCH)"

.PHONY: bench-once
bench-once: ## one pass of each benchmark, to see that they work
	@GO="$(GO)" ./scripts/bench.sh once "$(BENCH)"

.PHONY: examples
examples: ## build every program under examples/ and run it with -once
	@GO="$(GO)" ./scripts/examples.sh

.PHONY: ci-steps
ci-steps:
	@echo $(CI_STEPS)
