# hawser: `make demo` and `make test` do all their own set-up.
SHELL := /bin/bash
GO ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: build demo check test nightly bench dist man pictures fmt clean tools

build: ## bin/hawser
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/hawser ./cmd/hawser

demo: build ## two clusters, a link, live traffic; Ctrl-C ends it
	./bin/hawser demo

check: ## format, vet, lint, tree tests, unit tests
	./scripts/check

test: ## everything: check, then end to end against stock Apache Kafka and stock clients
	./scripts/test

nightly: ## the long runs
	./scripts/nightly

bench: build ## beside Apache Kafka, MirrorMaker 2, a plain consumer and the disk
	./scripts/bench

dist: ## what is released, in dist/: binaries, Debian packages, manual pages, checksums
	./scripts/dist

man: ## the manual pages, in dist/man
	$(GO) run ./scripts/man dist/man $(VERSION)

pictures: build ## docs/img again: two brokers, traffic, and Debian's Chromium
	$(GO) run ./scripts/pictures

fmt:
	gofmt -w $$(git ls-files '*.go')

clean:
	rm -rf bin dist
