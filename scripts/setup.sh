#!/usr/bin/env bash
# Installs the Debian packages that are missing, and nothing else.
# Usage: scripts/setup.sh GROUP...   with the groups build (compile and run), test and ci.
# When nothing is missing it neither touches the network nor needs to be root.
set -euo pipefail

build_packages=(g++ cmake ninja-build ccache pkg-config libfmt-dev nlohmann-json3-dev libpcre2-dev libcli11-dev
                libedit-dev libutf8proc-dev libssl-dev libboost1.81-dev xz-utils)
test_packages=(libgtest-dev python3 git curl)
ci_packages=(clang clang-format clang-tidy libclang-rt-14-dev)

packages=()
for group in "$@"; do
  case "$group" in
    build) packages+=("${build_packages[@]}") ;;
    test) packages+=("${test_packages[@]}") ;;
    ci) packages+=("${ci_packages[@]}") ;;
    *) echo "setup: unknown group '$group' (build, test or ci)" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "setup: not a Debian system, nothing installed; needed are the counterparts of: ${packages[*]}" >&2
  exit 0
fi

# dpkg-query fails when it does not know one of the names; its list of those it knows is still right.
# A virtual package counts when an installed one provides it (pkg-config is provided by pkgconf).
installed=" $(dpkg-query -W -f='${db:Status-Status} ${Package} ${Provides}\n' 2>/dev/null |
              awk '$1 == "installed" { $1 = ""; gsub(/\([^)]*\)|,/, " "); print }' | tr -s '\n ' ' ') "
missing=()
for package in "${packages[@]}"; do
  [[ "$installed" == *" $package "* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: not root and no sudo here; run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]}" >&2
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 install
         --no-install-recommends "${missing[@]}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The lists on the machine may be old or absent: refresh them only when the first try fails.
if ! "${install[@]}" >"$log" 2>&1 </dev/null; then
  if ! { "${as_root[@]}" apt-get -qq update && "${install[@]}"; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get could not install ${missing[*]}; its last lines are above" >&2
    exit 1
  fi
fi
