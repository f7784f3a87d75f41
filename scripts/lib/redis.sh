# Sourced by scripts that need Redis.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

# Whether redis-server and redis-cli are there, or could be installed.
have_redis() { have redis-server redis-server && have redis-cli redis-server; }
