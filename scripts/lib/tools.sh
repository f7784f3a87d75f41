# Sourced by scripts that need programs of Debian packages or of a package registry. Needs common.sh.

# apt_install PACKAGE: where this is Debian and we are root.
apt_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { say "$1 is missing: apt-get install $1"; return 1; }
  say "installing the Debian package $1"
  # The package would start a server of the system's own.
  local policy=/usr/sbin/policy-rc.d ours= status=0
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && ours=yes
  fi
  {
    apt-get install -y --no-install-recommends "$1" ||
      { apt-get update && apt-get install -y --no-install-recommends "$1"; }
  } >&2 || status=1
  [ -z "$ours" ] || rm -f $policy
  return $status
}

# have COMMAND PACKAGE: whether COMMAND is there; if it was not, PACKAGE is installed.
have() {
  # A function of the script that has the name of the program is not the program.
  type -P "$1" >/dev/null || apt_install "$2"
}

have_redis() { have redis-server redis-server && have redis-cli redis-server; }

# A browser; CHROMIUM names one.
have_chromium() {
  [ -n "${CHROMIUM-}" ] && return
  local name
  for name in chromium chromium-browser google-chrome-stable google-chrome; do
    command -v $name >/dev/null && return
  done
  apt_install chromium
}

# python_env FOLDER PIP-ARGUMENT…: a Python environment with what pip installs by these arguments; they may name files.
python_env() {
  local folder=$1 wanted file
  shift
  wanted=$(python3 --version && printf '%s\n' "$@" && for file; do [ ! -f "$file" ] || cat "$file"; done)
  [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ] || return 0
  say "installing into $folder: $*"
  python3 -m venv --clear "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" >&2 ||
    { rm -rf "$folder"; return 1; }
  printf '%s\n' "$wanted" >"$folder/installed"
}

# python_tool NAME PACKAGE…: installs programs in Python into .cache and puts them on the path.
python_tool() {
  local folder=$root/.cache/tools/$1
  shift
  python_env "$folder" --no-deps --only-binary :all: "$@" || return 1
  PATH=$PATH:$folder/bin
}

# cargo_tool NAME VERSION: whether `cargo NAME` is there; if it was not, it is installed as a prebuilt program.
cargo_tool() {
  cargo "$1" --version >/dev/null 2>&1 || python_tool "cargo-$1-$2" "astral-dev-toolchain-cargo-$1==$2"
}

# cargo_program NAME VERSION [ARGUMENT…]: a program of crates.io of this version, which is compiled into .cache; that
# takes minutes once. It comes first on the path.
cargo_program() {
  local name=$1 version=$2 folder=$root/.cache/tools/$1-$2
  shift 2
  if [ ! -x "$folder/bin/$name" ]; then
    say "building $name $version into .cache"
    # What it does is done once in a release: it is built quickly instead of well.
    env -u CARGO_ENCODED_RUSTFLAGS -u RUSTFLAGS -u CARGO_BUILD_TARGET CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
      CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
      cargo install --quiet --locked --root "$folder" --target-dir "$root/.cache/tools/build" "$name@$version" "$@" ||
      return 1
  fi
  PATH=$folder/bin:$PATH
}
