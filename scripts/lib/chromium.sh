# Sourced by scripts that need a browser.

# Whether a Chromium is there; where this is Debian and we are root, it is installed if it was not.
have_chromium() {
  [ -n "${CHROMIUM-}" ] && return
  local name
  for name in chromium chromium-browser google-chrome-stable google-chrome; do
    command -v $name >/dev/null && return
  done
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  echo "installing the Debian package chromium" >&2
  { apt-get install -y --no-install-recommends chromium || { apt-get update && apt-get install -y --no-install-recommends chromium; }; } >&2
}
