"""Usage: main.py SERVER SAMPLE_RUN. One line a check, then `N passed, N failed`."""

import pathlib
import sys

import probes
import session

passed = failed = 0


def check(what, ok, detail=None):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    why = "" if ok or detail is None else ": " + " / ".join(str(detail).split("\n"))[:400]
    print(f"{'ok  ' if ok else 'FAIL'} protocol {what}{why}", flush=True)


def main():
    command = [sys.argv[1], "lsp"]
    sample_run = pathlib.Path(sys.argv[2]).read_bytes().decode()
    session.run(command, check, sample_run)
    probes.run(command, check)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
