#!/usr/bin/env bash
# Proves that an installed folder runs where it is put: installs BUILD, moves the folder, looks for libraries outside it,
# and asks the embedded model a question there. Usage: scripts/install_check.sh BUILD
set -euo pipefail
build=$(realpath "${1:?usage: install_check.sh BUILD}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$build" --prefix "$scratch/first" --strip >"$scratch/install.log" 2>&1 ||
  { tail -n 5 "$scratch/install.log" >&2; echo "install_check: cmake --install failed" >&2; exit 1; }
mv "$scratch/first" "$scratch/moved"
cd /

c_library='linux-vdso|ld-linux-x86-64|libc|libm|libpthread|libdl|librt'
for program in "$scratch"/moved/bin/*; do
  [[ $(head -c 4 "$program") == $'\x7fELF' ]] || continue
  foreign=$(env -i ldd "$program" | grep -vE "=> $scratch/moved/bin/\.\./lib/|^[[:space:]]*(/lib64/)?($c_library)\.so" || true)
  if [[ -n $foreign ]]; then
    echo "install_check: bin/$(basename "$program") needs what the folder does not carry:" >&2
    echo "$foreign" >&2
    exit 1
  fi
done

answer=$(env -i "$scratch/moved/bin/fathom" chat --temperature 0 --device cpu <<<"What's the capital of Romania?")
if [[ $answer != "The capital of Romania is Bucharest." ]]; then
  echo "install_check: the moved program answers '$answer'" >&2
  exit 1
fi
echo "install_check: ok, $(du -sm "$scratch/moved" | cut -f1) MiB, programs $(du -sm "$scratch/moved/bin" | cut -f1) MiB"
