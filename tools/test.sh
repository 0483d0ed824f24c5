#!/usr/bin/env bash
# Everything a change must pass, from a bare Debian machine on: installs what is missing, builds in release with warnings
# as errors, checks format, folder layers, sizes and that each header compiles alone, and runs all tests.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_missing "${build_packages[@]}" "${test_packages[@]}"
configure_flags=(-DBUILD_TESTING=ON)
build release
ctest --preset release -j "$(nproc)"
