# shellcheck shell=bash disable=SC2034
# Problem: every development script needs the same few paths and helpers.
# Usage:   . "$(dirname "$0")/paths.sh"
# Leaves:  only the variables and functions below, nothing on disk.

DEV=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$DEV")
SERVICES_DIR=$ROOT/target/services
SID_DIR=$ROOT/target/sid
VENV_DIR=$ROOT/target/venv

# Debian keeps some servers where an ordinary user's PATH does not look.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "needs root or sudo to run: $*"
  fi
}

# Where servers run: docker, native or sid. The environment's SERVICES decides;
# without it, containers when a Docker engine answers, else local processes.
services_mode() {
  case ${SERVICES:-} in
    docker | native | sid) echo "$SERVICES" ;;
    '') if docker info >/dev/null 2>&1; then echo docker; else echo native; fi ;;
    *) die "SERVICES must be docker, native or sid, not '$SERVICES'" ;;
  esac
}
