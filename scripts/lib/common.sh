# What the scripts in bash share: `. "$(dirname "$0")/lib/common.sh"`, before anything else. Sets `root`, the
# repository.
# Works with bash 3.2 (macOS) and later, with `set -u` and with `set -e`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P) || exit 1
script=$(cd "$(dirname "$0")" && pwd -P)/$(basename "$0")

say() { printf '%s: %s\n' "${script##*/}" "$*" >&2; }
step() { printf '\n== %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
wrong() { say "$*; see ${script#"$root/"} --help"; exit 2; }

# need COMMAND [HOW]: ends the script if COMMAND is missing; HOW says how to get it.
need() { command -v "$1" >/dev/null 2>&1 || die "$1 is missing: ${2:-apt-get install $1}"; }

# The comment at the head of the script; one with more to say has a function of its own.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$script"; }

# help_if_asked "$@": prints it and ends, if one of the arguments asks for it.
help_if_asked() {
  local argument
  for argument in "$@"; do
    case $argument in -h | --help) usage && exit 0 ;; esac
  done
}

# value NAME: the value of a line NAME=VALUE of standard input.
value() { sed -n "s/^$1=//p"; }

# free_port: prints a port of 127.0.0.1 on which nothing listens now.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# answers URL [CURL OPTIONS…]: waits up to 30 s for an answer that is no error.
answers() {
  local tenths
  for ((tenths = 300; tenths > 0; tenths--)); do
    command curl --silent --fail --noproxy '*' --output /dev/null "$@" && return 0
    sleep 0.1
  done
  say "no answer from $1"
  return 1
}

# ---- whatever happens, nothing stays behind ----

# Process groups that the script has started, instances of search servers and of Redis, and its temporary folder.
children=() instances=() redis_instances=() work=

# temporary [FOLDER]: makes the folder $work (in FOLDER).
temporary() { work=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/spinney-XXXXXX") || exit 1; }

clean_up() {
  trap '' INT TERM
  local group tenths name
  for group in ${children[@]+"${children[@]}"}; do
    kill -TERM -- "-$group" 2>/dev/null || true
  done
  for group in ${children[@]+"${children[@]}"}; do
    # What was starting a server ends it.
    for ((tenths = 600; tenths > 0; tenths--)); do
      kill -0 -- "-$group" 2>/dev/null || continue 2
      sleep 0.1
    done
    kill -KILL -- "-$group" 2>/dev/null || true
  done
  for name in ${instances[@]+"${instances[@]}"}; do
    "$root/scripts/search-server" stop "$name" >/dev/null 2>&1 || true
  done
  for name in ${redis_instances[@]+"${redis_instances[@]}"}; do
    "$root/scripts/redis-cluster" stop "$name" >/dev/null 2>&1 || true
  done
  [ -z "$work" ] || rm -rf "$work"
}

# at_end FUNCTION: calls it when the script ends, also by a signal.
at_end() {
  trap "$1" EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}
at_end clean_up

# begin COMMAND…: starts a command as a process group of its own, which ends with the script; sets `pid`.
begin() {
  set -m
  "$@" </dev/null &
  pid=$!
  set +m
  children+=("$pid")
}

# finish PID: waits for what `begin` has started; its exit code.
finish() {
  local code=0 group left=()
  wait "$1" || code=$?
  for group in "${children[@]}"; do [ "$group" = "$1" ] || left+=("$group"); done
  children=(${left[@]+"${left[@]}"})
  return $code
}

# run COMMAND…: in the foreground, and a signal to this script ends it.
run() {
  begin "$@"
  finish "$pid"
}

# ---- programs ----

# target_directory: prints where cargo builds.
target_directory() {
  cargo metadata --no-deps --format-version 1 --manifest-path "$root/Cargo.toml" 2>/dev/null |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# spinney_program: sets `spinney` to $SPINNEY_BIN, or builds it.
spinney_program() {
  spinney=${SPINNEY_BIN-}
  [ -z "$spinney" ] || return 0
  need cargo "install Rust from your distribution or with rustup"
  run cargo build --locked --bin spinney >&2 || return 1
  spinney=$(target_directory)/debug/spinney
}

# bench_program NAME: builds a benchmark, with the features of the packages, and sets `program`.
bench_program() {
  say "building"
  run cargo bench --quiet --no-run --features aws,otel --bench "$1" --message-format=json-render-diagnostics \
    >"$work/build.json" || die "the build failed"
  program=$(sed -n 's/.*"kind":\["bench"\].*"executable":"\([^"]*\)".*/\1/p' "$work/build.json")
  [ -x "$program" ] || die "cargo built no benchmark $1"
}

# ---- servers ----

# search_server KIND INSTANCE [OPTIONS…]: starts a search server and sets `search` to its URL; what else it says of
# itself is in $work/INSTANCE.env.
search_server() {
  local kind=$1 name=$2
  shift 2
  instances+=("$name")
  run "$root/scripts/search-server" start "$kind" --instance "$name" --heap 1g "$@" >"$work/$name.env" || return 1
  search=$(value url <"$work/$name.env")
}

# redis_server: starts a Redis on a free port and sets `redis` to HOST:PORT.
redis_server() {
  redis=127.0.0.1:$(free_port)
  begin redis-server --port "${redis#*:}" --bind 127.0.0.1 --save '' --dir "$work" >"$work/redis.log"
}

# spinney_serve NAME ARGUMENTS…: starts spinney on a free port and sets `url` and `pid`. Its log is $work/NAME.log.
spinney_serve() {
  local name=$1 tenths
  shift
  : >"$work/$name.out"
  begin "$spinney" serve --listen 127.0.0.1:0 "$@" >"$work/$name.out" 2>"$work/$name.log"
  for ((tenths = 300; tenths > 0; tenths--)); do
    url=$(sed -n 's/^spinney is listening on //p' "$work/$name.out")
    [ -z "$url" ] || return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  cat "$work/$name.log" >&2
  say "spinney does not start: $name"
  return 1
}
