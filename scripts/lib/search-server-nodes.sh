# Part of scripts/search-server: instances and their nodes (config, processes, readiness, what is printed).
# An instance is a folder $state_dir/NAME with a file `meta` of shell variables and a file node-I.pid per node;
# its config, data and logs are in $work.

http_port() { echo "$http_ports" | cut -d ' ' -f "$1"; }
transport_port() { echo "$transport_ports" | cut -d ' ' -f "$1"; }
node_url() {
  local scheme=http
  [ "$kind" = opensearch-secure ] && scheme=https
  echo "$scheme://127.0.0.1:$(http_port "$1")"
}

load_instance() {
  [ -f "$state_dir/$name/meta" ] || return 1
  . "$state_dir/$name/meta"
  describe_kind "$kind"
}

# ---- processes ----

node_mark() { echo "path.data=$work/node-$1/data"; }
folders() { printf '%s\n' "$work" "$state_dir/$name"; }

# ---- making an instance ----

make_instance() {
  local base ports i
  base=$(reachable_base "$state_dir" "spinney-servers-$(id -u)") || exit 1
  mkdir -p "$state_dir/$name" || die "cannot make $state_dir/$name"
  work=$(mktemp -d "$base/work-$name.XXXXXX") && chmod 755 "$work" || die "cannot write into $base"
  ports=$(free_ports $((2 * nodes)))
  http_ports=$(echo "$ports" | cut -d ' ' -f "1-$nodes")
  transport_ports=$(echo "$ports" | cut -d ' ' -f "$((nodes + 1))-")
  printf '%s=%q\n' kind "$kind" nodes "$nodes" heap "$heap" cpu "$cpu" brief "$brief" work "$work" \
    home "$home" java_home "$java_home" \
    http_ports "$http_ports" transport_ports "$transport_ports" >"$state_dir/$name/meta"
  [ "$kind" != opensearch-secure ] || make_certificates "$work/tls" node admin
  for i in $(node_numbers); do configure_node "$i"; done
  [ ${#as_user[@]} -eq 0 ] || chown -R "$run_user" "$work"
}

# "127.0.0.1:P1","127.0.0.1:P2" and "node-1","node-2"
quoted_list() { printf ',"%s"' "$@" | cut -c 2-; }
all_transports() { for i in $(node_numbers); do echo "127.0.0.1:$(transport_port "$i")"; done; }
all_node_names() { for i in $(node_numbers); do echo "node-$i"; done; }

configure_node() {
  local dir=$work/node-$1 i
  mkdir -p "$dir/data" "$dir/logs" "$dir/tmp"
  cp -R "$home/config" "$dir/config"
  # The distribution's own options, less those that write files into its folder.
  grep -vE '^[^#]*(-Xlog:gc|-Xloggc|HeapDumpPath|HeapDumpOnOutOfMemoryError|ErrorFile)' "$home/config/jvm.options" \
    >"$dir/config/jvm.options"
  mkdir -p "$dir/config/jvm.options.d"
  # Memory is taken as it is used, and no files of the JVM are left in the temporary folder.
  printf '%s\n' "-Xms$heap" "-Xmx$heap" -XX:-AlwaysPreTouch -XX:-UsePerfData "-XX:ErrorFile=$dir/logs/hs_err.log" \
    >"$dir/config/jvm.options.d/spinney.options"
  [ -z "$brief" ] || echo -XX:TieredStopAtLevel=1 >>"$dir/config/jvm.options.d/spinney.options"
  {
    echo "cluster.name: spinney-$name"
    echo "node.name: node-$1"
    echo "network.host: 127.0.0.1"
    echo "http.port: $(http_port "$1")"
    echo "transport.port: $(transport_port "$1")"
    echo "path.data: $dir/data"
    echo "path.logs: $dir/logs"
    echo "path.repo: $dir/repo"
    # A disk that is nearly full must not turn test indices read-only.
    echo "cluster.routing.allocation.disk.threshold_enabled: false"
    if [ "$nodes" -eq 1 ]; then
      echo "discovery.type: single-node"
    else
      echo "discovery.seed_hosts: [$(quoted_list $(all_transports))]"
      if [ "$program" = elasticsearch ]; then
        echo "cluster.initial_master_nodes: [$(quoted_list $(all_node_names))]"
      else
        echo "cluster.initial_cluster_manager_nodes: [$(quoted_list $(all_node_names))]"
      fi
    fi
    case $kind in
      elasticsearch*) echo "xpack.security.enabled: false" ;;
      opensearch-secure) security_settings ;;
    esac
  } >"$dir/config/$program.yml"
  if [ "$kind" = opensearch-secure ]; then
    cp "$work/tls/ca.pem" "$work/tls/node.pem" "$work/tls/node.key" "$dir/config/"
  fi
  # The security plugin complains about every file that others can read.
  chmod -R go-rwx "$dir/config"
}

launch() {
  local dir=$work/node-$1 prefix_command=()
  [ -z "$cpu" ] || prefix_command=(taskset -c "$cpu")
  # A group of its own where there is setsid: Ctrl-C in the caller's terminal is not for the server.
  command -v setsid >/dev/null 2>&1 && prefix_command+=(setsid)
  say "$name: starting node $1 on $(node_url "$1")"
  (
    unset ES_JAVA_OPTS OPENSEARCH_JAVA_OPTS JAVA_TOOL_OPTIONS
    cd / || exit 1
    exec ${prefix_command[@]+"${prefix_command[@]}"} ${as_user[@]+"${as_user[@]}"} env \
      "${prefix}_JAVA_HOME=$java_home" "JAVA_HOME=$java_home" \
      "${prefix}_PATH_CONF=$dir/config" "${prefix}_TMPDIR=$dir/tmp" \
      "$home/bin/$program" "-Epath.data=$dir/data" >>"$dir/logs/server.log" 2>&1 </dev/null
  ) &
  echo $! >"$state_dir/$name/node-$1.pid"
  # Until the exec has happened the process does not look like a node yet (see alive_pid).
  local tenths=50
  until alive_pid "$1" >/dev/null || [ $tenths -eq 0 ]; do
    sleep 0.1
    tenths=$((tenths - 1))
  done
}

# ---- talking to it ----

# GET, PUT … on node $1: request I METHOD PATH [JSON]
request() {
  local args=(-s --fail --noproxy '*' --max-time 10 -X "$2")
  [ "$kind" != opensearch-secure ] || args+=(--cacert "$work/tls/ca.pem" -u admin:admin)
  [ $# -lt 4 ] || args+=(-H 'Content-Type: application/json' -d "$4")
  curl "${args[@]}" "$(node_url "$1")$3"
}

# Every running node answers, sees the others, and the primaries of all indices are assigned
# (as far as nodes that were killed allow).
wait_ready() {
  local began=$SECONDS last=0 i alive health='wait_for_status=yellow&'
  alive=$(count_alive)
  [ "$alive" -eq "$nodes" ] || health=
  for i in $(node_numbers); do
    [ -z "$node" ] || [ "$node" = "$i" ] || alive_pid "$i" >/dev/null || continue
    until request "$i" GET "/_cluster/health?${health}wait_for_nodes=%3E%3D$alive&timeout=2s" >/dev/null 2>&1; do
      if ! alive_pid "$i" >/dev/null; then
        tail -n 30 "$work/node-$i/logs/server.log" >&2
        die "$name: node $i ended while starting; the end of its log is above"
      fi
      if [ $((SECONDS - began)) -ge "$timeout" ]; then
        tail -n 30 "$work/node-$i/logs/server.log" >&2
        die "$name: node $i is not ready after $timeout s; the end of its log is above"
      fi
      if [ $((SECONDS - began)) -ge $((last + 10)) ]; then
        last=$((SECONDS - began))
        say "$name: waiting for node $i ($last s)"
      fi
      sleep 0.3
    done
  done
  say "$name: ready after $((SECONDS - began)) s"
}

print_instance() {
  local i urls= pids= pid first=
  for i in $(node_numbers); do
    pid=$(alive_pid "$i") || continue
    first=${first:-$i}
    urls=$urls,$(node_url "$i")
    pids=$pids,$pid
  done
  printf '%s=%q\n' name "$name" kind "$kind" version "$version" url "$(node_url "$first")"
  # Unquoted: the values hold no character that a shell would touch.
  printf '%s=%s\n' urls "${urls#,}" pid "${pids#,}"
  printf '%s=%q\n' log "$work/node-$first/logs/server.log"
  [ "$kind" != opensearch-secure ] || print_security
}
