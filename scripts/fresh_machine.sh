#!/usr/bin/env bash
# Proves the README's commands on a Debian 12 machine with nothing installed: a minimal system in a folder, entered with
# chroot, a clone of this repository's HEAD in it, `make chat` with a question piped in, again, and `make test`.
# Usage (as root): scripts/fresh_machine.sh SCRATCH_DIR [make target instead of test]
# SCRATCH_DIR/base, a pristine minimal system, is used when it is there and made by debootstrap otherwise; all that this
# script made is removed at the end. Packages come from where this machine's own apt takes them.
set -euo pipefail

question="What's the capital of Romania?"
answer="The capital of Romania is Bucharest."

[[ $# -ge 1 ]] || { echo "usage: scripts/fresh_machine.sh SCRATCH_DIR [TARGET]" >&2; exit 2; }
[[ $(id -u) -eq 0 ]] || { echo "fresh_machine: must be root (chroot, mounts)" >&2; exit 1; }
# A mount namespace of our own: what is mounted here is gone when this process is, whatever happens.
if [[ ${FATHOM_FRESH_NAMESPACE:-} != 1 ]]; then
  FATHOM_FRESH_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
fi

mkdir -p "$1"
scratch=$(realpath "$1")
target=${2:-test}
repository=$(realpath "$(dirname "$0")/..")
base=$scratch/base
root=$scratch/root
logs=$scratch/logs
made_base=0
failed=0
rows=()

mounts() { awk -v r="$root/" 'index($2, r) == 1 { print $2 }' /proc/self/mounts | sort -r; }

cleanup() {
  cd /
  mounts | while read -r place; do umount -l "$place"; done
  if [[ -n $(mounts) ]]; then
    echo "fresh_machine: something is still mounted below $root; not removed" >&2
  else
    rm -rf --one-file-system "$root"
  fi
  ((made_base)) && rm -rf --one-file-system "$base"
  return 0
}
trap cleanup EXIT

bring_apt_settings() {  # sources of Debian itself, proxy and clock settings, name service
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    if [[ -f $file ]]; then
      rm -f "$root/etc/apt/sources.list"
      install -D -m 644 "$file" "$root$file"
    fi
  done
  apt-config dump | grep -E '^Acquire::(https?|Retries|Check-Date|Check-Valid-Until)' >"$root/etc/apt/apt.conf.d/99host" || true
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
}

inside() {  # a bare environment, as after logging in
  local setting=() name
  for name in http_proxy https_proxy no_proxy; do [[ -n ${!name:-} ]] && setting+=("$name=${!name}"); done
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
    "${setting[@]}" chroot "$root" sh -c "$1"
}

timed() {  # timed NAME COMMAND [EXPECTED_STDOUT]: runs inside, notes seconds and result
  local name=$1 command=$2 begin end result=ok
  echo "--- $name: $command" >&2
  begin=$(date +%s.%N)
  inside "$command" </dev/null >"$logs/$name.out" 2>"$logs/$name.err" || result="exit status $?"
  end=$(date +%s.%N)
  if [[ $result == ok && $# -ge 3 && $(cat "$logs/$name.out") != "$3" ]]; then
    result="stdout is not exactly '$3'"
  fi
  rows+=("$(printf '%-16s %8.1f s  %s' "$name" "$(awk "BEGIN { print $end - $begin }")" "$result")")
  if [[ $result != ok ]]; then
    failed=1
    tail -n 15 "$logs/$name.err" "$logs/$name.out" >&2
  fi
}

mkdir -p "$logs"
if [[ ! -d $base ]]; then
  made_base=1
  debootstrap --variant=minbase bookworm "$base" "${FATHOM_MIRROR:-http://deb.debian.org/debian}" >"$logs/debootstrap.log"
fi
rm -rf --one-file-system "$root"
cp -a "$base" "$root"
bring_apt_settings
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /dev "$root/dev"
git -C "$repository" bundle create "$root/root/fathom.bundle" HEAD 2>/dev/null

chat="cd /root/fathom && echo \"$question\" | make chat ARGS='--temperature 0'"
timed git-and-make "apt-get -qq update && apt-get -qq -y install --no-install-recommends git make"
timed clone "git init -q /root/fathom && cd /root/fathom && git fetch -q /root/fathom.bundle HEAD && git checkout -q FETCH_HEAD"
timed chat-first "$chat" "$answer"
timed chat-again "$chat" "$answer"
timed "$target" "cd /root/fathom && make $target"

echo
echo "A fresh Debian 12 ($(nproc) cores), commit $(git -C "$repository" rev-parse --short HEAD):"
printf '%s\n' "${rows[@]}"
grep -hE '^[0-9]+% tests passed' "$logs/$target.out" || true
exit "$failed"
