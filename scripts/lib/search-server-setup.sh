# Part of scripts/search-server: what must be there before a server can start (tools, user, JDK, distribution).
# Reads the variables set by describe_kind; sets as_user (array), java_home, home.

# The servers refuse to run as root: root hands them to a system user.
as_user=()
prepare_user() {
  [ "$(id -u)" -eq 0 ] || return 0
  need setpriv "apt-get install util-linux"
  if ! id "$run_user" >/dev/null 2>&1; then
    say "making the system user $run_user, as the servers refuse to run as root"
    useradd --system --user-group --no-create-home --shell /usr/sbin/nologin "$run_user" ||
      die "cannot make the user $run_user; make it yourself (useradd --system $run_user) or do not run as root"
  fi
  as_user=(setpriv "--reuid=$run_user" "--regid=$(id -g "$run_user")" --clear-groups)
}

run_as_user() { ${as_user[@]+"${as_user[@]}"} "$@"; }

# A folder under the checkout's cache if the servers' user can reach it and its path has no spaces (the servers'
# own scripts split on them), else one under the temporary folder. $1: the folder in the cache, $2: its fallback's name.
reachable_base() {
  local base
  mkdir -p "$1" 2>/dev/null
  for base in "$1" "${TMPDIR:-/tmp}/$2" "/tmp/$2"; do
    case $base in *[[:space:]]*) continue ;; esac
    mkdir -p "$base" 2>/dev/null || continue
    # In a temporary folder somebody else could have made it first.
    [ -O "$base" ] && run_as_user test -x "$base/." && { echo "$base"; return; }
  done
  die "found no folder that the servers' user ${as_user[0]:+$run_user }can reach; set TMPDIR to one"
}

# The feature number of a JDK (17 of 17.0.15, 8 of 1.8.0), by asking it; as the servers' user, who must be able to run
# it.
jdk_version() {
  [ -x "$1/bin/java" ] || return 1
  run_as_user "$1/bin/java" -version 2>&1 |
    sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1 | grep .
}

java_on_path() {
  local java
  java=$(command -v java) || return 0
  java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p'
}

find_jdk() {
  local candidate found seen= best= best_version=999
  while IFS= read -r candidate; do
    [ -n "$candidate" ] && found=$(jdk_version "$candidate") || continue
    seen="$seen $found ($candidate)"
    if [ "$found" -ge "$jdk_min" ] && [ "$found" -le "$jdk_max" ] && [ "$found" -lt "$best_version" ]; then
      best=$candidate best_version=$found
    fi
  done <<END
${JAVA_HOME:-}
$(java_on_path)
$(ls -d /usr/lib/jvm/* /usr/java/* /opt/java/* /opt/jdk* "$HOME"/.sdkman/candidates/java/* \
    /Library/Java/JavaVirtualMachines/*/Contents/Home /opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home \
    /usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home 2>/dev/null)
END
  if [ -z "$best" ]; then
    local versions="$jdk_min or newer"
    [ "$jdk_max" -eq 99 ] || versions="$jdk_min to $jdk_max"
    say "$kind needs a JDK $versions; found:${seen:- none}"
    local package=openjdk-21-jdk-headless
    [ "$jdk_min" -le 17 ] && package="$package (or openjdk-17-jdk-headless)"
    die "install one: apt-get install $package, or Temurin (temurin-21-jdk from Adoptium), or set JAVA_HOME"
  fi
  java_home=$best
  say "$name: JDK $best_version in $java_home"
}

# Unpacks artifact $1 into folder $2; the zip is kept in the cache.
unpack_artifact() {
  local rest=${1#*:} zip bounded=()
  zip=$cache/zips/$(echo "${rest%:zip}" | tr ':' '-').zip
  if [ ! -f "$zip" ]; then
    need mvn "apt-get install maven"
    say "fetching $1 with Maven"
    command -v timeout >/dev/null 2>&1 && bounded=(timeout --foreground 900)
    mkdir -p "$cache/zips" || die "cannot make $cache/zips; set SPINNEY_CACHE to a folder that can be written"
    ${bounded[@]+"${bounded[@]}"} mvn -q -B dependency:get "-Dartifact=$1" -Dtransitive=false >&2 &&
      ${bounded[@]+"${bounded[@]}"} mvn -q -B dependency:copy "-Dartifact=$1" "-DoutputDirectory=$cache/zips" >&2 ||
      die "Maven could not fetch $1; see its words above"
    [ -f "$zip" ] || die "Maven put no $(basename "$zip") into $cache/zips"
  fi
  unzip -q -o "$zip" -d "$2" || die "cannot unpack $zip; remove it and try again"
}

# Unpacks the distribution once, read-only for the servers: their own config, data and logs are elsewhere.
prepare_distribution() {
  local base
  base=$(reachable_base "$cache/dist" "spinney-dist-$(id -u)") || exit 1
  home=$base/$kind-$version
  [ -d "$home" ] && return
  fresh=$(mktemp -d "$base/.unpack.XXXXXX") && chmod 755 "$fresh" || die "cannot write into $base"
  say "$name: unpacking $program $version"
  unpack_artifact "$artifact" "$fresh"
  # Some distributions come without these, and refuse to start then.
  mkdir -p "$fresh/$program-$version/plugins" "$fresh/$program-$version/logs"
  if [ -n "$plugin_artifact" ]; then
    # What `bin/opensearch-plugin install --batch` does, without its wish to change groups.
    local plugin=$fresh/$program-$version/plugins/opensearch-security
    unpack_artifact "$plugin_artifact" "$plugin"
    mv "$plugin/config" "$fresh/$program-$version/config/opensearch-security"
  fi
  chmod -R go+rX "$fresh"
  # Another start may have been quicker; then its copy serves.
  mv "$fresh/$program-$version" "$home" 2>/dev/null || [ -d "$home" ] || die "cannot move the distribution to $home"
  rm -rf "$fresh"
  fresh=
}
