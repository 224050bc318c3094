# make help lists what there is. Everything runs offline once the modules and packages are there.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

LINT := go tool -modfile=tools.mod golangci-lint
# What each fuzzer does in fuzz-short: inputs to try (10000x), or a time (5m). A count, because the fuzzing of Go 1.26 can
# end a time with "context deadline exceeded" though nothing was found (go.dev/issue/75804, mended in Go 1.27).
FUZZTIME ?= 10000x
# Arguments of the benchmark: make bench BENCH='-only get-100-c512 -rounds 9'.
BENCH ?=
# What make lint and make testrace look at.
PACKAGES ?= ./...

include generate.mk

.PHONY: help
help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

# The programs need no C library: they are one file that runs anywhere, and the kernel has less to do when their
# threads wake, for which a C library has it keep an account (rseq(2)).
build run: export CGO_ENABLED = 0

.PHONY: build
build: ## Build the programs into build/, as they are to be used: by the profile in cmd/dataplane
	@mkdir -p build
	go build -o build/ ./cmd/...

.PHONY: run
run: ## Run two example backends and a data plane in front of them, until Ctrl-C
	@mkdir -p build
	go build -pgo=off -o build/ ./cmd/... ./examples/backend
	@PATH="$(CURDIR)/build:$$PATH" examples/quickstart/run

.PHONY: test
test: packages lint vet checkgenerate fuzz-short testallocs testrace ## Everything that must pass before a change goes in

.PHONY: packages
packages: ## Install the Debian packages that the tests use (root), and the Go modules
	.ci/packages
	go mod download
	npm ci --silent --no-audit --no-fund --prefix examples/controlplane-node

.PHONY: vet
vet: ## go vet
	go vet $(PACKAGES)

.PHONY: lint
lint: protolint ## Every linter that .golangci.yml leaves on
	$(LINT) run $(PACKAGES)

.PHONY: fuzz-short
fuzz-short: ## Run each fuzzer for FUZZTIME, a number of inputs or a time
	.ci/fuzz $(FUZZTIME)

# The race detector allocates, so claims about allocations are tested without it. They are the tests with Alloc in
# their names.
.PHONY: testallocs
testallocs: ## Hold the claims about allocations
	go test -count=1 -run Alloc $$(git grep -lE 'func Test[A-Za-z]*Alloc' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|')

.PHONY: bars
bars: ## Hold the promises of applies and of outages at full size, and say the figures (minutes)
	HEADGATE_BARS=full go test -count=1 -v -run 'Costs|ManyApplies|Kill' ./dataplane
	HEADGATE_BARS=full go test -count=1 -v -run Costs ./dataplane/upstream
	HEADGATE_BARS=full go test -count=1 -v -run 'AStorm|AbandonedSoon|LongPath' ./dataplane/proxy
	go test -run xxx -bench 10000 ./dataplane
	HEADGATE_BARS=full go test -count=1 -v -run 'Enough|Limit' ./dataplane/e2e

.PHONY: testrace
testrace: ## All tests under the race detector
	go test -race -timeout 15m $(PACKAGES)

.PHONY: bench
bench: build ## Measure the data plane beside nginx and HAProxy; needs two cores
	@.ci/packages
	go build -o build/bench ./bench
	build/bench $(BENCH)

# The compiler reads cmd/dataplane/default.pgo at each build and lays the hot paths out by it.
.PHONY: profile
profile: build ## Record the profile that the data plane is built by (two cores, minutes)
	@.ci/packages
	go build -o build/bench ./bench
	rm -rf build/profiles
	build/bench -rounds 1 -each 8s -profiles build/profiles -only get-100,get-10k,post-10k,fresh,tls-100,h2,grpc,log
	go tool pprof -proto build/profiles/*.pprof > cmd/dataplane/default.pgo

.PHONY: clean
clean: ## Remove build/
	rm -rf build
