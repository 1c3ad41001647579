# Functions for the scripts of this project; to be sourced by bash. Needs $root, the project's folder.

# Where cargo puts its output; caches of the editor tests lie beside it.
case ${CARGO_TARGET_DIR:-} in
  '') target=$root/target ;;
  /*) target=$CARGO_TARGET_DIR ;;
  *) target=$PWD/$CARGO_TARGET_DIR ;;
esac

say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; return; fi
  have sudo || fail "Not root, and there is no sudo. As root, run: $*"
  sudo "$@"
}

# apt_install PACKAGE...: install what is missing; the package index is fetched once a run.
apt_install() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  have apt-get || fail "These packages are missing and there is no apt-get: ${missing[*]}"
  say "installing ${missing[*]}"
  if [ -z "${apt_updated:-}" ]; then
    as_root apt-get -o DPkg::Lock::Timeout=300 update -qq </dev/null >/dev/null || fail "apt-get update failed."
    export apt_updated=1
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends \
    "${missing[@]}" </dev/null >/dev/null || fail "apt-get could not install ${missing[*]}"
}

# A C linker: rustc calls `cc`.
need_linker() { have cc || apt_install gcc libc6-dev; }

need_cargo() {
  have cargo && return
  [ -x "$HOME/.cargo/bin/cargo" ] && PATH=$HOME/.cargo/bin:$PATH && return
  fail "cargo is missing. Install Rust, https://rustup.rs, then start again."
}

# python_env FOLDER REQUIREMENT...: a virtual environment that holds exactly these packages.
python_env() {
  local folder=$1 stamp
  shift
  stamp="$folder/.installed"
  [ "$(cat "$stamp" 2>/dev/null)" = "$*" ] && "$folder/bin/python" -c '' 2>/dev/null && return
  python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3 python3-venv
  rm -rf "$folder"
  mkdir -p "$(dirname "$folder")"
  python3 -m venv "$folder" || fail "python3 could not make a virtual environment in $folder"
  "$folder/bin/pip" install -q --disable-pip-version-check "$@" || fail "pip could not install $*"
  printf '%s' "$*" >"$stamp"
}

# The release binary, in $target/release.
build_server() {
  need_cargo
  need_linker
  (cd "$root" && cargo build --release --locked)
}

# server_binary [PATH]: print the path of the server under test; build it where none is named.
server_binary() {
  local binary=${1:-${TRAINWRECK_BINARY:-}}
  if [ -z "$binary" ]; then
    need_cargo
    need_linker
    build_server >&2 || fail "cargo build failed."
    binary=$target/release/trainwreck
  fi
  [ -x "$binary" ] || fail "$binary is not an executable file."
  realpath "$binary"
}
