# Part of scripts/search-server and scripts/redis-cluster: servers as instances with nodes. An instance is a folder $state_dir/NAME
# with a file `meta` of shell variables and a file node-I.pid per node. Needs say, die, node_numbers and alive_pid; lock sets
# `locked`, which its caller removes in the end.

# The Debian and Ubuntu package that brings a command.
package_of() {
  case $1 in
    mvn) echo maven ;;
    ps) echo procps ;;
    setpriv | taskset) echo util-linux ;;
    *) echo "$1" ;;
  esac
}

need() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null 2>&1 ||
      die "'$tool' is missing; install it: apt-get install $(package_of "$tool")"
  done
}

instance_names() {
  local meta
  for meta in "$state_dir"/*/meta; do
    [ -f "$meta" ] && basename "$(dirname "$meta")"
  done
}

# One command at a time may change an instance; a lock whose owner is gone is taken over.
lock() {
  local dir=$state_dir/.lock-$name waited=0 owner
  mkdir -p "$state_dir" || die "cannot make $state_dir"
  until mkdir "$dir" 2>/dev/null; do
    owner=$(cat "$dir/pid" 2>/dev/null)
    if [ -n "$owner" ] && ! kill -0 "$owner" 2>/dev/null; then
      rm -rf "$dir"
      continue
    fi
    [ $waited -ge "$timeout" ] && die "$name: another command still holds $dir after $timeout s"
    [ $((waited % 10)) -eq 0 ] && say "$name: waiting for another command on it (process ${owner:-unknown})"
    sleep 1
    waited=$((waited + 1))
  done
  echo $$ >"$dir/pid"
  locked=$dir
}

count_alive() {
  local i count=0
  for i in $(node_numbers); do alive_pid "$i" >/dev/null && count=$((count + 1)); done
  echo $count
}

# To the whole process group where the node leads one (its start script may still have a child).
signal() { kill "-$1" -- "-$2" 2>/dev/null || kill "-$1" "$2" 2>/dev/null; }

# Waits up to $1 seconds for node $2 to end.
wait_gone() {
  local tenths=$(($1 * 10))
  while alive_pid "$2" >/dev/null; do
    [ $tenths -gt 0 ] || return 1
    sleep 0.1
    tenths=$((tenths - 1))
  done
}

# TERM, a bounded wait, KILL.
end_node() {
  local pid
  pid=$(alive_pid "$1") || return 0
  signal TERM "$pid"
  wait_gone 20 "$1" && return
  say "$name: node $1 does not stop, killing it"
  signal KILL "$pid"
  wait_gone 10 "$1" || die "$name: node $1 (process $pid) is still there 10 s after SIGKILL"
}

# $1 free ports below the range from which systems take ports for outgoing connections: a killed node
# must find its port free when it comes back.
free_ports() {
  local ports= port left=$1
  while [ "$left" -gt 0 ]; do
    port=$((20000 + RANDOM % 12000))
    case " $ports " in *" $port "*) continue ;; esac
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue
    ports="$ports $port"
    left=$((left - 1))
  done
  echo "${ports# }"
}
