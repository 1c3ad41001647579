#!/usr/bin/env bash
# Speaks the protocol with the server over real stdio and judges each of its messages.
# Usage: run.sh [SERVER_BINARY]; without it $TRAINWRECK_BINARY, else the release build.
# One line a check, then `N passed, N failed`; exit code 1 on a failure.
set -u
root=$(cd "$(dirname "$0")/../../.." && pwd)
. "$root/scripts/lib.sh"

server=$(server_binary "${1:-}") || exit 1
python_env "$target/editors/protocol/venv" lsprotocol==2025.0.0
export PYTHONDONTWRITEBYTECODE=1 PYTHONUTF8=1
timeout --kill-after=5 480 "$target/editors/protocol/venv/bin/python" \
  "$root/tests/editors/protocol/main.py" "$server" "$root/examples/run.log" </dev/null
status=$?
[ "$status" -ge 124 ] && say "FAIL protocol: took longer than 8 minutes (code $status)"
exit "$status"
