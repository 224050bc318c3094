# Generated code: proto/ -> gen/. buf and its plugins are pinned in tools.mod and run locally; nothing here needs a
# registry once the modules are downloaded.

BUF := go tool -modfile=tools.mod buf
# What the tree is compared with by protobreaking: any git revision.
AGAINST ?= main

# The validation language comes from its Go module. The directory ignores itself, so git never sees it.
.proto-deps/buf/validate/validate.proto: tools.mod
	@mkdir -p $(@D)
	@echo '*' > .proto-deps/.gitignore
	@go mod download -modfile=tools.mod github.com/bufbuild/protovalidate
	@install -m 644 "$$(go list -modfile=tools.mod -m -f '{{.Dir}}' github.com/bufbuild/protovalidate)/proto/protovalidate/buf/validate/validate.proto" $@

.PHONY: generate
generate: .proto-deps/buf/validate/validate.proto ## Generate gen/ from proto/
	$(BUF) generate

.PHONY: checkgenerate
checkgenerate: generate ## Fail if gen/ is not what proto/ generates
	@git diff --exit-code -- gen
	@new="$$(git ls-files --others --exclude-standard -- gen)"; \
	if [ -n "$$new" ]; then echo "not committed:" >&2; echo "$$new" >&2; exit 1; fi

.PHONY: protolint
protolint: .proto-deps/buf/validate/validate.proto ## Lint proto/ and check its format
	$(BUF) lint
	$(BUF) format --diff --exit-code proto

.PHONY: protoformat
protoformat: .proto-deps/buf/validate/validate.proto ## Format proto/
	$(BUF) format --write proto

.PHONY: protobreaking
protobreaking: .proto-deps/buf/validate/validate.proto ## Fail if proto/ breaks what AGAINST (default: main) promised
	@if ! git rev-parse --quiet --verify '$(AGAINST):proto' >/dev/null; then \
		echo 'protobreaking: $(AGAINST) has no proto/ yet; nothing to compare with' >&2; exit 0; fi; \
	old="$$(mktemp -d)"; trap 'rm -rf "$$old"' EXIT; \
	git archive '$(AGAINST)' buf.yaml proto | tar -x -C "$$old" && cp -r .proto-deps "$$old" && \
	$(BUF) breaking --against "$$old"
