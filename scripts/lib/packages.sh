# Sourced by scripts that need programs of Debian packages.

# have COMMAND PACKAGE: whether COMMAND is there; where this is Debian and we are root, PACKAGE is installed if it was not.
have() {
  # A function of the script that has the name of the program is not the program.
  type -P "$1" >/dev/null && return
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "$1 is missing: apt-get install $2" >&2; return 1; }
  echo "installing the Debian package $2" >&2
  # The package would start a server of the system's own.
  local policy=/usr/sbin/policy-rc.d ours= status=0
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && ours=yes
  fi
  { apt-get install -y --no-install-recommends "$2" || { apt-get update && apt-get install -y --no-install-recommends "$2"; }; } >&2 || status=1
  [ -z "$ours" ] || rm -f $policy
  return $status
}
