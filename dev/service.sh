# shellcheck shell=bash disable=SC2154  # the caller sets what is not set here
# Problem: dev/redis, dev/rabbitmq and dev/kafka offer the same sub-commands, once for
#          local processes and once for containers.
# Usage:   set `kind`, `flavour` and `start_seconds`; define
#            ready         does it answer on $port?
#            start_native  launch the processes, using $dir, $port, $enter, "$@"
#            image         print the container image
#            in_container  print nothing; set `container_args` and `container_command`
#          and, where the Debian package is not called KIND-server,
#            install_native  install what start_native launches
#          then call: service "$@"
# Leaves:  target/services/KIND-NAME/ with data/, log/, pid files, and `state`,
#          which says how NAME was last started: "MODE FLAVOUR PORT".
#          A container keeps its data in the volume xdelay-KIND-NAME.

. "$(dirname "${BASH_SOURCE[0]}")/paths.sh"
. "$DEV/process.sh"

log() { if [ "$mode" = docker ]; then docker logs --tail 40 "$container" 2>&1; else tail -n 40 "$dir/log/server.log"; fi; }

running() {
  if [ "$mode" = docker ]; then
    [ "$(docker inspect -f '{{.State.Running}}' "$container" 2>/dev/null)" = true ]
  else
    alive "$dir/pid"
  fi
}

wait_ready() {
  local deadline=$((SECONDS + start_seconds))
  until ready; do
    running || { log >&2; die "$name ended while starting; the log's end is above"; }
    [ "$SECONDS" -lt "$deadline" ] ||
      { log >&2; die "$name did not answer within $start_seconds s; the log's end is above"; }
    sleep 0.2
  done
}

# Sets mode, flavour and port from the last start; false when there was none.
recall() { read -r mode flavour port 2>/dev/null <"$dir/state"; }

start() {
  local wanted_flavour=$flavour wanted_port=$port
  if recall; then
    [ "${SERVICES:-$mode}" = "$mode" ] ||
      die "$name has data of SERVICES=$mode; first: dev/$kind remove $name"
    [ "${REDIS_FLAVOUR:-$flavour}" = "$flavour" ] || [ "$kind" != redis ] ||
      die "$name has data of REDIS_FLAVOUR=$flavour; first: dev/$kind remove $name"
    if running; then
      [ "$port" = "$wanted_port" ] || die "$name already runs on port $port"
      wait_ready
      return
    fi
  else
    mode=$(services_mode) flavour=$wanted_flavour
  fi
  port=$wanted_port
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    die "port $port is taken by a process that is not $kind $name"
  fi
  mkdir -p "$dir/data" "$dir/log"
  echo "$mode $flavour $port" >"$dir/state"
  case $mode in
    docker)
      in_container "$@"
      docker rm -f "$container" >/dev/null 2>&1 || true
      docker run -d --name "$container" "${container_args[@]}" \
        "$(image)" "${container_command[@]}" >/dev/null
      ;;
    native)
      if declare -F install_native >/dev/null; then install_native; else "$DEV/install" "$kind-server"; fi
      enter=(env)
      start_native "$@"
      ;;
    sid)
      "$DEV/sid" build
      enter=("$DEV/sid" exec)
      start_native "$@"
      ;;
  esac
  wait_ready
}

# stop SIGNAL: end NAME, keeping its data.
stop() {
  recall || return 0
  if [ "$mode" = docker ]; then
    case $1 in
      KILL) docker kill "$container" >/dev/null 2>&1 || true ;;
      *) docker stop -t 30 "$container" >/dev/null 2>&1 || true ;;
    esac
    docker rm -f "$container" >/dev/null 2>&1 || true
  else
    end "$dir/pid" "$1" 30
    end "$dir/epmd.pid" TERM 5
  fi
}

remove() {
  recall || return 0
  stop TERM
  if [ "$mode" = docker ]; then docker volume rm "$container" >/dev/null 2>&1 || true; fi
  rm -rf "$dir/data" "$dir/state"
}

# service ACTION NAME [PORT] [ARGS...]
service() {
  local usage="usage: dev/$kind start NAME PORT [ARGS] | stop NAME | kill NAME | wait NAME | remove NAME"
  [ $# -ge 2 ] || die "$usage"
  local action=$1
  name=$2
  shift 2
  [[ $name =~ ^[a-z][a-z0-9-]*$ ]] || die "NAME is lower-case letters, digits and '-', not '$name'"
  dir=$SERVICES_DIR/$kind-$name
  container=xdelay-$kind-$name
  enter=() mode='' port=''
  if [ "$action" = wait ]; then
    recall || die "$name was never started"
    wait_ready
    return
  fi

  mkdir -p "$dir"
  exec 9>"$dir/lock" # one action on NAME at a time
  flock 9
  case $action in
    start)
      port=${1:-}
      [[ $port =~ ^[0-9]+$ ]] || die "$usage"
      shift
      start "$@"
      echo "$kind $name: 127.0.0.1:$port ($mode $flavour)"
      ;;
    stop) stop TERM ;;
    kill) stop KILL ;;
    remove) remove ;;
    *) die "$usage" ;;
  esac
}
