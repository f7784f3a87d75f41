# Sourced by scripts that need Redis.

# Whether redis-server and redis-cli are there; where this is Debian and we are root, they are installed if they were not.
have_redis() {
  command -v redis-server >/dev/null && command -v redis-cli >/dev/null && return
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  echo "installing the Debian package redis-server" >&2
  # The package would start a server of the system's own.
  local policy=/usr/sbin/policy-rc.d ours= status=0
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && ours=yes
  fi
  { apt-get install -y --no-install-recommends redis-server || { apt-get update && apt-get install -y --no-install-recommends redis-server; }; } >&2 || status=1
  [ -z "$ours" ] || rm -f $policy
  return $status
}
