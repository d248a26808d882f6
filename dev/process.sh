# shellcheck shell=bash disable=SC2154  # the caller sets what is not set here
# Problem: servers must outlive the shell that starts them, and be ended later
#          without ever hitting an unrelated process that got the same pid.
# Usage:   . process.sh, then launch, alive, end and answers.
# Leaves:  one pid file per launched process, holding "PID START-TIME".

# launch PIDFILE LOG COMMAND...: COMMAND must keep the pid it is started with.
# The lock of the caller (descriptor 9) is not handed on.
launch() {
  local pidfile=$1 log=$2
  shift 2
  rm -f "$pidfile"
  # shellcheck disable=SC2016  # expands in the inner shell
  setsid "${enter[@]}" sh -c \
    'file=$1; shift; cut -d" " -f1,22 /proc/$$/stat >"$file"; exec "$@"' sh "$pidfile" "$@" \
    </dev/null >>"$log" 2>&1 9>&- &
  local launcher=$!
  until [ -s "$pidfile" ]; do
    [ -d "/proc/$launcher" ] || [ -s "$pidfile" ] ||
      die "could not launch it; see $log"
    sleep 0.02
  done
}

# alive PIDFILE: is the very process that wrote PIDFILE still running? A killed
# one holds its ports until its last thread is gone, after it became a zombie.
alive() {
  local pid start stat threads
  read -r pid start 2>/dev/null <"$1" || return 1
  stat=$(cat "/proc/$pid/stat" 2>/dev/null) || return 1
  # After "PID (name) " come the state, field 3, and the start time, field 22.
  read -ra stat <<<"${stat##*) }"
  threads=("/proc/$pid/task"/*)
  [ "${stat[19]}" = "$start" ] && { [ "${stat[0]}" != Z ] || [ "${#threads[@]}" -gt 1 ]; }
}

# end PIDFILE SIGNAL SECONDS: signal that process and wait until it is gone;
# after SECONDS it is killed.
end() {
  local pid deadline=$((SECONDS + $3))
  if alive "$1"; then
    read -r pid _ <"$1"
    kill "-$2" "$pid" 2>/dev/null || true
    while alive "$1"; do
      [ "$SECONDS" -lt "$deadline" ] || kill -KILL "$pid" 2>/dev/null || true
      sleep 0.05
    done
  fi
  rm -f "$1"
}

# answers PORT REQUEST PATTERN: does the server on 127.0.0.1:PORT reply to
# REQUEST (a printf format) with up to five bytes that match PATTERN?
answers() (
  exec 2>/dev/null 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
  # shellcheck disable=SC2059
  printf "$2" >&3
  reply=
  IFS= read -r -t 2 -n 5 -u 3 reply || true
  # shellcheck disable=SC2053
  [[ $reply == $3 ]]
)
