# Part of scripts/search-server and scripts/redis-cluster: servers as instances with nodes. An instance is a folder
# $state_dir/NAME with a file `meta` of shell variables and a file node-I.pid per node. Needs common.sh, and of the
# script load_instance, node_mark I (what the command line of a node has and no other process), prepare, launch I,
# wait_ready, print_instance, told (the options of an instance, for people) and folders (what goes with an instance).

need_ps() { need ps "apt-get install procps"; }
need_taskset() { need taskset "apt-get install util-linux"; }

node_numbers() { seq 1 "$nodes"; }
# The nodes that kill and restart are about.
chosen_nodes() { [ -z "$node" ] && node_numbers || echo "$node"; }
check_node() {
  [ -z "$node" ] || { [ "$node" -ge 1 ] && [ "$node" -le "$nodes" ]; } || die "$name has nodes 1 to $nodes, not $node"
}

# The pid of a node that is running. A pid may have been given to another process since: the command line decides.
alive_pid() {
  local pid
  pid=$(cat "$state_dir/$name/node-$1.pid" 2>/dev/null) || return 1
  ps -ww -p "$pid" -o command= 2>/dev/null | grep -qF -- "$(node_mark "$1")" && echo "$pid"
}

# A start that fails or is interrupted leaves nothing behind: of an instance that is `starting`, of the folder `locked`,
# which is its lock, and of `fresh`, in which something is made.
starting= locked= fresh=
on_exit() {
  [ -n "$fresh" ] && rm -rf "$fresh"
  [ -n "$starting" ] && { say "$name: start did not finish, cleaning up"; remove_instance; }
  [ -n "$locked" ] && rm -rf "$locked"
}
at_end on_exit

remove_instance() {
  local i pid folder
  [ -f "$state_dir/$name/meta" ] || return 0
  for i in $(node_numbers); do
    pid=$(alive_pid "$i") && signal TERM "$pid"
  done
  for i in $(node_numbers); do end_node "$i"; done
  folders | while IFS= read -r folder; do rm -rf "${folder:?}"; done
}

# make_certificates FOLDER SUBJECT…: an authority there (ca.pem, ca.key), a certificate of it for `node`, of this
# machine, and others for clients.
make_certificates() {
  need openssl
  local tls=$1 subject
  shift
  mkdir -p "$tls" || die "cannot make $tls"
  {
    openssl req -x509 -newkey rsa:2048 -sha256 -nodes -days 30 -subj "/CN=spinney test CA" \
      -keyout "$tls/ca.key" -out "$tls/ca.pem"
    for subject; do
      if [ "$subject" = node ]; then
        echo "subjectAltName=DNS:localhost,IP:127.0.0.1"
      else
        echo "extendedKeyUsage=clientAuth"
      fi >"$tls/$subject.ext"
      openssl req -newkey rsa:2048 -sha256 -nodes -subj "/CN=$subject" \
        -keyout "$tls/$subject.raw" -out "$tls/$subject.csr" &&
        openssl x509 -req -sha256 -days 30 -in "$tls/$subject.csr" -extfile "$tls/$subject.ext" \
          -CA "$tls/ca.pem" -CAkey "$tls/ca.key" -CAcreateserial -out "$tls/$subject.pem" &&
        openssl pkcs8 -topk8 -nocrypt -in "$tls/$subject.raw" -out "$tls/$subject.key" || break
    done
  } >"$tls/openssl.log" 2>&1
  [ -s "$tls/$subject.key" ] || { cat "$tls/openssl.log" >&2; die "openssl made no certificates; its words are above"; }
  rm -f "$tls"/*.raw "$tls"/*.csr "$tls"/*.ext "$tls"/*.srl
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

# ---- commands ----

# already_runs WANTED HAS: whether the instance is there, and prints it then; ends the script if it runs with other
# options. What is left of an earlier start is removed.
already_runs() {
  local alive
  alive=$(count_alive)
  if [ "$alive" = 0 ]; then
    say "$name: removing what is left of an earlier start"
    remove_instance
    return 1
  fi
  [ "$alive" -eq "$nodes" ] || die "$name has $alive of $nodes nodes running; restart or stop it first"
  [ "$1" = "$2" ] || die "$name already runs otherwise ($(told)); stop it first"
  wait_ready
  print_instance
}

status_command() {
  if [ -z "$name" ]; then
    local any=
    for name in $(instance_names); do
      any=yes
      load_instance
      echo "$name: $(count_alive) of $nodes node(s) running, $(told)"
    done
    [ -n "$any" ] || { echo "no server is running"; exit 3; }
    return
  fi
  load_instance && [ "$(count_alive)" -gt 0 ] || { echo "$name is not running"; exit 3; }
  print_instance
}

kill_command() {
  lock
  load_instance || die "$name was not started"
  check_node
  local i pid
  for i in $(chosen_nodes); do
    pid=$(alive_pid "$i") || { say "$name: node $i is not running"; continue; }
    signal KILL "$pid"
    wait_gone 10 "$i" || die "$name: node $i (process $pid) is still there 10 s after SIGKILL"
    say "$name: node $i killed"
  done
}

restart_command() {
  lock
  load_instance || die "$name was not started; use start"
  check_node
  prepare
  local i pid
  for i in $(chosen_nodes); do
    pid=$(alive_pid "$i") && signal TERM "$pid"
  done
  for i in $(chosen_nodes); do
    end_node "$i"
    launch "$i"
  done
  wait_ready
  print_instance
}

stop_command() {
  if [ -n "$all" ]; then
    for name in $(instance_names); do "$script" stop "$name" --timeout "$timeout" || exit 1; done
    return
  fi
  [ -n "$name" ] || die "stop what? a NAME or --all"
  lock
  load_instance || { say "$name is not running"; return 0; }
  remove_instance
  say "$name: stopped, nothing is left of it"
}

# ---- arguments ----

# read_arguments OPTIONS FLAGS ARGUMENTS…: sets `command`, `name`, and a variable for each option (which has a value)
# and flag (`yes`). Names of both are separated by spaces. `timeout` is set before, in seconds.
read_arguments() {
  local options=" $1 node timeout " flags=" $2 all " option
  shift 2
  [ $# -gt 0 ] || wrong "say what to do"
  command=$1 name=
  shift
  for option in $options $flags; do [ "$option" = timeout ] || printf -v "$option" ''; done
  while [ $# -gt 0 ]; do
    option=${1#--}
    case $1 in
      --*)
        case $flags in *" $option "*) printf -v "$option" yes; shift; continue ;; esac
        case $options in *" $option "*) ;; *) wrong "unknown option $1" ;; esac
        [ $# -ge 2 ] || die "$1 needs a value"
        printf -v "$option" %s "$2"
        shift 2
        ;;
      *)
        [ -z "$name" ] || die "one server at a time, got '$name' and '$1'"
        name=$1
        shift
        ;;
    esac
  done
  case ${node:-1}$timeout in *[!0-9]*) die "--node and --timeout take whole numbers" ;; esac
  case $name${instance-} in *[!a-zA-Z0-9_-]*) die "a server's name has letters, digits, - and _ only" ;; esac
}

# Runs the command that read_arguments has found.
run_command() {
  case $command in
    start | status | stop) ;;
    kill | restart) [ -n "$name" ] || die "$command what? a NAME, see status" ;;
    *) wrong "unknown command '$command'" ;;
  esac
  need_ps
  "${command}_command"
}
