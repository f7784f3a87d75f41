# What has passed of `scripts/test --all`: a file of one line for each part, named after the state of the repository. A run
# that was ended, or of which a part failed for want of something, goes on there with --resume. To be sourced.

# The file for the files as they are; empty it, unless an argument says to resume.
passed_file() {
  local state
  state=$({ git rev-parse HEAD; git diff HEAD; git ls-files --others --exclude-standard -z | xargs -0 -r sha1sum; } | sha1sum)
  local file=.cache/passed/${state%% *}
  mkdir -p .cache/passed
  [ -n "${1-}" ] || rm -f "$file"
  touch "$file"
  printf '%s' "$PWD/$file"
}

has_passed() { [ -n "${SPINNEY_TEST_PASSED-}" ] && grep -qxF -- "$1" "$SPINNEY_TEST_PASSED"; }

note_passed() { [ -z "${SPINNEY_TEST_PASSED-}" ] || printf '%s\n' "$1" >>"$SPINNEY_TEST_PASSED"; }
