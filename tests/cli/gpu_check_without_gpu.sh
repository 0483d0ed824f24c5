#!/usr/bin/env bash
# tools/gpu_check.sh on a machine without a GPU: says so, exits 1 before it builds or writes anything. Exit 77 where
# there is a GPU. Usage: gpu_check_without_gpu.sh REPOSITORY
set -u
check=$1/tools/gpu_check.sh

if compgen -G '/dev/nvidia[0-9]*' >/dev/null || { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }; then
  echo "skipped: there is a GPU here"
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "failed: $1"
  cat "$scratch/stdout" "$scratch/stderr"
  exit 1
}

OUT=$scratch/out PIPEPLAN_BIN=$scratch timeout 20 "$check" >"$scratch/stdout" 2>"$scratch/stderr"
code=$?
[ $code = 1 ] || fail "exit code $code, wanted 1"
grep -q '^no CUDA device: ' "$scratch/stderr" || fail "stderr does not open with 'no CUDA device: '"
[ ! -s "$scratch/stdout" ] || fail "something on stdout"
[ ! -e "$scratch/out" ] || fail "a result folder without results"

"$check" --no-such-flag >"$scratch/stdout" 2>"$scratch/stderr"
code=$?
[ $code = 2 ] || fail "exit code $code for a wrong flag, wanted 2"
grep -q '^usage: ' "$scratch/stderr" || fail "a wrong flag is not answered with the usage"
echo "passed"
