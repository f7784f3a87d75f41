# Sourced by scripts that test against servers of their own, with the repository as working directory: a temporary
# directory $work, and processes that end with the script. Needs `set -u`.

work=$(mktemp -d)
started=() instances=()

leave_nothing() {
  trap '' INT TERM
  local pid instance
  for pid in ${started[@]+"${started[@]}"}; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  for instance in ${instances[@]+"${instances[@]}"}; do
    scripts/search-server stop "$instance" >/dev/null 2>&1 || true
  done
  rm -rf "$work"
}
trap leave_nothing EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# spinney_program: sets `spinney` to $SPINNEY_BIN, or builds it.
spinney_program() {
  spinney=${SPINNEY_BIN-}
  [ -z "$spinney" ] || return 0
  cargo build --locked --bin spinney >&2 || return 1
  spinney=${CARGO_TARGET_DIR:-target}/debug/spinney
}

# search_server KIND INSTANCE: starts a search server and sets `search` to its URL.
search_server() {
  instances+=("$2")
  scripts/search-server start "$1" --instance "$2" --heap 1g --brief >"$work/$2.env" 2>"$work/$2.log" ||
    { cat "$work/$2.log" >&2; return 1; }
  search=$(sed -n 's/^url=//p' "$work/$2.env")
}

# spinney_serve NAME ARGUMENTS…: starts spinney on a free port and sets `url` and `pid`. Its log is $work/NAME.log.
spinney_serve() {
  local name=$1 tenths
  shift
  : >"$work/$name.out"
  "$spinney" serve --listen 127.0.0.1:0 "$@" >"$work/$name.out" 2>"$work/$name.log" &
  pid=$!
  started+=("$pid")
  for ((tenths = 300; tenths > 0; tenths--)); do
    url=$(sed -n 's/^spinney is listening on //p' "$work/$name.out")
    [ -z "$url" ] || return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  cat "$work/$name.log" >&2
  return 1
}

# free_port: prints a port of 127.0.0.1 that nobody listens on now.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# answers URL [CURL OPTIONS…]: waits up to 30 s for an answer that is no error.
answers() {
  local tenths
  for ((tenths = 300; tenths > 0; tenths--)); do
    command curl --silent --fail --noproxy '*' --output /dev/null "$@" && return 0
    sleep 0.1
  done
  echo "no answer from $1" >&2
  return 1
}
