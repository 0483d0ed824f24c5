# Sourced by demo.sh and test.sh: installs what is missing on Debian, says what, and defines build().
# Needs root or sudo only if something is missing.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_packages=(g++ cmake ninja-build pkg-config ccache libboost-graph-dev nlohmann-json3-dev libeigen3-dev
  libfmt-dev libcli11-dev libexpected-dev libxxhash-dev)
test_packages=(python3 doctest-dev libvalijson-dev clang-format)

install_missing() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "installing with apt-get: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "error: not root, and no sudo: install these packages first" >&2; exit 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# build PRESET [TARGET…]: configures and builds; the compiler's cache makes a second time quick.
build() {
  local preset=$1
  shift
  export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # shared between clones
  cmake --preset "$preset" "${configure_flags[@]}" >"/tmp/pipeplan-configure-$$.log" || { cat "/tmp/pipeplan-configure-$$.log"; exit 1; }
  rm -f "/tmp/pipeplan-configure-$$.log"
  cmake --build --preset "$preset" ${1:+--target "$@"}
}
configure_flags=()
