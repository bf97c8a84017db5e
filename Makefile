# Cauce: build, run and check. `make` alone lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo 0.1.0-dev)
COMMIT  ?= $(shell git describe --always --abbrev=12 --dirty --exclude '*' 2>/dev/null || echo unknown)

process := github.com/cauce-stream/cauce/libs/process
ldflags := -s -w -X $(process).Version=$(VERSION:v%=%) -X $(process).Commit=$(COMMIT)
mains   := ./cmd/cauce $(addprefix ./,$(wildcard services/*/cmd/cauce-* examples/*/cmd/cauce-*))
plugins := $(addprefix ./,$(wildcard plugins/*/cmd/cauce-*))

LISTEN   ?= 127.0.0.1:9092
DATA     ?= ./data
FUZZTIME ?= 10s
BENCH    ?= .
IMAGE_TAG   ?= dev
IMAGE_FILES ?= bin/image
SEED     ?= 0
RUNS     ?= 20000
SEEDS    ?= 3

export CGO_ENABLED ?= 0

##@ Everyday

.PHONY: build
build: ## Build every program into bin/ and every plugin into bin/plugins/, static and reproducible
	@mkdir -p bin/plugins
	go build -trimpath -buildvcs=false -ldflags '$(ldflags)' -o bin/ $(mains)
	go build -trimpath -buildvcs=false -ldflags '-s -w' -o bin/plugins/ $(plugins)

.PHONY: run
run: build ## Build and run one node at LISTEN, with its data in DATA (ARGS="--set key=value" for more)
	bin/cauce dev --listen $(LISTEN) --data-dir $(DATA) $(ARGS)

.PHONY: test
test: ## Run the tests of every module
	.ci/test

.PHONY: race
race: ## Run the tests of every module with the race detector (needs a C compiler)
	CGO_ENABLED=1 .ci/test -race

.PHONY: lint
lint: ## Check imports, sizes, docs, formatting, vet and staticcheck
	.ci/lint

.PHONY: fmt
fmt: ## Format all Go code
	@git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l -w

.PHONY: docs
docs: ## Write the generated pages of docs/ and the dashboards
	go generate ./libs/kafka/configkeys
	cd deploy && go run ./grafana grafana/dashboards
	cd plugins/connectors && go run ./reference ../../docs/connectors.md
	cd services/connect && go run ./internal/reference ../../docs/transforms.md

##@ Thorough

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME each
	.ci/fuzz $(FUZZTIME)

.PHONY: sim
sim: ## Simulate replication, groups, transactions and workers RUNS times each, or repeat the run of one SEED
	cd tests && go test -count=1 -timeout 4h -run '^TestSimulation$$' ./simulation -v -args -seed $(SEED) -runs $(RUNS)
	cd services/groupcoord && go test -count=1 -timeout 2h -run '^TestSimulation' ./internal/shard ./internal/consumer -args -seed $(SEED) -runs $(RUNS)
	cd services/txncoord && go test -count=1 -timeout 2h -run '^TestSimulation$$' ./internal/shard -args -seed $(SEED) -runs $(RUNS)
	cd services/connect && go test -count=1 -timeout 2h -run '^TestSimulation$$' ./internal/assignment -args -seed $(SEED) -runs $(RUNS)

.PHONY: bench
bench: ## Run the benchmarks that match BENCH
	@for module in $$(go list -m -f '{{.Dir}}'); do (cd "$$module" && go test -run '^$$' -bench '$(BENCH)' -benchmem ./... | grep -v 'no test files'); done

.PHONY: conformance
conformance: build ## Run unmodified clients and Kafka's own tools against a node
	cd tests && go test -count=1 -timeout 40m -tags conformance ./conformance/...

.PHONY: connect-conformance
connect-conformance: build ## Run Kafka's Connect workers and Cauce's against each other, on Cauce, in each way that they share work
	cd tests && go test -count=1 -timeout 20m -tags conformance ./conformance/connect -all

.PHONY: e2e
e2e: e2e-programs ## Run the programs against each other as processes and, where an engine answers, in containers
	@if docker version >/dev/null 2>&1; then $(MAKE) compose-e2e; else echo 'no Docker engine answers: "make compose-e2e" installs one'; fi

.PHONY: e2e-programs
e2e-programs: build ## Run the programs against each other as processes
	cd tests && go test -count=1 -timeout 20m -tags e2e ./e2e/...

.PHONY: compose-e2e
compose-e2e: images ## Start the stack of deploy/compose with its real images and use it from outside
	cd tests && go test -count=1 -timeout 60m -v -tags compose ./e2e/compose

.PHONY: chaos
chaos: build ## Kill, freeze, cut and fill while a checker watches: SEEDS schedules of faults from SEED on
	cd tests && go test -count=1 -v -timeout 10h -tags chaos ./chaos -seeds $(SEEDS) -seed $(SEED)

.PHONY: connect-chaos
connect-chaos: build ## Kill what connectors need while they copy tables: SEEDS runs of 60 faults from SEED on; then one of three workers with 210 tasks
	cd tests && go test -count=1 -v -timeout 10h -tags e2e ./e2e/connect -seed $(SEED) -runs $(SEEDS) -faults 60 -connectors 30 -tasks 7

.PHONY: lab-1
lab-1: build ## Look at a partition's folder, before and after its segments become small
	cd tests && go run ./lab/anatomy

.PHONY: lab-2
lab-2: build ## Count the acknowledged records that a leader takes along as it dies, with acks=1 and acks=all
	cd tests && go run ./lab/acks

.PHONY: lab-3
lab-3: build ## Elect a leader that lacks records, and see what is lost and where that is said
	cd tests && go run ./lab/unclean

.PHONY: lab-4
lab-4: build ## Have a group fall behind, and be thrown out for max.poll.interval.ms again and again, with two repairs
	cd tests && go run ./lab/lag

.PHONY: lab-5
lab-5: build ## Measure the pause of eager, cooperative and static groups in a rebalance
	cd tests && go run ./lab/rebalance

.PHONY: lab-6
lab-6: build ## Measure what a key does that 40 % of all records have, and what repairs it
	cd tests && go run ./lab/hotkey

.PHONY: examples
examples: build ## Build the example plugins, and hold them against the conformance kit
	plugins/examples/test

##@ Images

.PHONY: image-files
image-files: build ## Lay out in IMAGE_FILES what goes into the images
	@rm -rf $(IMAGE_FILES)
	@install -d -m 1777 $(IMAGE_FILES)/tmp
	@install -d -m 755 $(addprefix $(IMAGE_FILES)/,data plugins own-plugins)
	@install -m 755 $(addprefix bin/,$(notdir $(mains))) $(IMAGE_FILES)/
	@install -m 755 $(addprefix bin/plugins/,$(notdir $(plugins))) $(IMAGE_FILES)/plugins/

.PHONY: images
images: image-files ## Build the images, reproducibly and from nothing, and load them when a Docker engine runs
	@rm -rf bin/images
	@go run ./deploy/docker/image -files $(IMAGE_FILES) -tag $(IMAGE_TAG) -version '$(VERSION:v%=%)' -commit '$(COMMIT)' -arch "$$(go env GOARCH)" \
		-created "$$(git log -1 --format=%ct 2>/dev/null || echo 0)" -out bin/images
	@if docker info >/dev/null 2>&1; then for archive in bin/images/*.tar; do docker load -q -i "$$archive"; done; fi

##@ Other

.PHONY: version
version: ## Print the version and commit that are stamped in
	@echo '$(VERSION:v%=%) $(COMMIT)'

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
