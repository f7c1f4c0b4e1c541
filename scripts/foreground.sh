#!/usr/bin/env bash
# Runs a program so that keys such as Ctrl-C reach it alone and not the `make` that started it: on a terminal the
# program gets a process group of its own, as a shell does for its jobs. Ctrl-Z stops all of it and `fg` resumes.
[[ -t 0 ]] || exec "$@"
set -m

resume_while_stopped() {  # recursive, because a stopped job makes bash leave its loops
  ((status == 128 + $(kill -l TSTP))) || return 0
  kill -TSTP 0
  fg >/dev/null
  status=$?
  resume_while_stopped
}

"$@"
status=$?
resume_while_stopped
exit "$status"
