# The targets with a comment behind them are what `make` lists. Whatever CI does is a target here, so that it can be
# repeated alone.

# The one place where the version of the linter stands. It is built from source through the Go module proxy.
GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
FUZZTIME  := 20s
TORTURE   := 10m

.DEFAULT_GOAL := help
.PHONY: help test alone race lint vet fmt fmt-check tidy-check cross cover fuzz fuzz-short torture run ci

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## run the main example: thumbnails of real images
	go run ./examples/thumbnails

test: ## all tests; needs nothing but Go
	go test ./...

# SQLite is C that was translated to Go. What it works on are pages mapped beside Go's heap, which the race detector does
# not look at: to have it called for each access finds nothing and makes SQLite ten times slower. Its driver is Go, and
# watched. Nor does a process have to wait a second before it ends: no test may leave a goroutine that could race then.
# What go vet says it says in the step of that name.
UNWATCHED := modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory
RACE      := CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 go test -race $(UNWATCHED:%=-gcflags=%=-race=false) -vet=off -timeout 20m

race: ## all tests but torture under the race detector, of the crash tests the chaos; needs a C compiler
	$(RACE) $$(go list ./... | grep -vE '/internal/(torture|crashtest)$$')
	$(RACE) -run '^TestChaos$$' ./internal/crashtest

alone: ## the tests that need a processor for themselves
	go test -count=1 -v -tags alone -run '^TestBurst' ./runtime

cover: ## all tests with coverage; writes coverage.out and prints the total
	go test -coverpkg=./... -coverprofile=coverage.out ./...
	@go tool cover -func=coverage.out | tail -n 1

fuzz-short: ## every fuzz target for FUZZTIME (20s) each
	@grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
		sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$$file" | while read -r target; do \
			echo "go test -run '^$$' -fuzz ^$$target\$$ $$(dirname "$$file")"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
		done || exit 1; \
	done

fuzz: ## every fuzz target for TORTURE (10m) each
	@$(MAKE) --no-print-directory fuzz-short FUZZTIME=$(TORTURE)

torture: ## chaos, and every proof of internal/torture, for TORTURE (10m) each; TORTURE_SEED repeats a run
	@export TORTURE=$(TORTURE); status=0; \
	go test -count=1 -timeout 0 -v -run '^TestChaos$$' ./internal/crashtest || status=1; \
	go test -count=1 -timeout 0 -v ./internal/torture || status=1; \
	exit $$status

vet: ## go vet, also of the code for other systems
	go vet ./...
	GOOS=darwin GOARCH=arm64 go vet ./...
	GOOS=windows GOARCH=amd64 go vet ./...

lint: ## golangci-lint with .golangci.yml
	$(GOLANGCI_LINT) run ./...

fmt: ## format all Go code
	gofmt -w .

fmt-check: ## fail if a file is not formatted
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi

tidy-check: ## fail if go.mod or go.sum is not tidy
	go mod tidy -diff
	go mod verify

cross: ## build for every supported system
	@for platform in $(PLATFORMS); do \
		echo "build $$platform"; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} go build ./... || exit 1; \
	done

ci: ## what CI runs
	bash .ci/run
