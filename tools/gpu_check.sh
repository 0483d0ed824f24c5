#!/usr/bin/env bash
# Everything that only a GPU can tell, in under six minutes: layers against the CPU, profiles by CUPTI, plans for two
# and four parts of one GPU, real training of them held against the prediction, the cost of measuring, what neighbours
# do to each other, and whether the chosen cut is the best of all. Needs bash, awk, tar and a GPU's driver; programs
# come from $PIPEPLAN_BIN, build/portable or build/release, else they are built here. Leaves at most six files in $OUT
# (default build/gpu-check). Exit code 1: a check failed, or there is no GPU.
#   tools/gpu_check.sh                     the check
#   tools/gpu_check.sh --build-only DIR    builds programs that run on a bare machine and puts them into DIR
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
root=$PWD
# shellcheck source=tools/gpu_check/report.sh
source tools/gpu_check/report.sh

seconds_in_all=345
deadline=$seconds_in_all
least_share=0.03      # what the chosen split may be slower than the best one
largest_overhead=0.05 # of CUPTI

build_programs() {
  cmake --preset portable -DPIPEPLAN_CUDA=ON -DBUILD_TESTING=ON &&
    cmake --build --preset portable --target pipeplan pipeplan_cuda gpu_tests
}

# find_program NAME FOLDER: below a folder of programs or a build folder.
find_program() {
  local place
  for place in "$2/$1" "$2/tests/$1"; do
    [ -x "$place" ] && { echo "$place"; return 0; }
  done
  return 1
}

build_only() {
  local folder=$1 name program
  build_programs || exit 1
  mkdir -p "$folder" || exit 1
  for name in pipeplan gpu_tests; do
    program=$(find_program $name build/portable) || { echo "error: $name was not built" >&2; exit 1; }
    cp "$program" "$folder/" || exit 1
  done
  cp build/portable/libpipeplan_cuda.so "$folder/" || exit 1
  echo "programs for a bare machine are in $folder: PIPEPLAN_BIN=$folder tools/gpu_check.sh"
}

# gpu_there: whether anything here looks like a GPU; the programs know better, but may have to be built first.
gpu_there() {
  compgen -G '/dev/nvidia[0-9]*' >/dev/null || [ -e /dev/dxg ] ||
    { command -v nvidia-smi >/dev/null && timeout 20 nvidia-smi -L >/dev/null 2>&1; }
}

no_gpu() {
  echo "no CUDA device: $1" >&2
  exit 1
}

# clean_up: leaves no scratch files, and no folder of results without any.
clean_up() {
  rm -rf "$work"
  rmdir "$out" 2>/dev/null
}

# find_programs: sets `pipeplan` and `tests`, or builds them.
find_programs() {
  local folder
  for folder in ${PIPEPLAN_BIN:+"$PIPEPLAN_BIN"} build/portable build/release; do
    pipeplan=$(find_program pipeplan "$folder") || continue
    [ -e "$(dirname "$pipeplan")/libpipeplan_cuda.so" ] || continue
    pipeplan=$(cd "$(dirname "$pipeplan")" && pwd)/pipeplan
    tests=$(find_program gpu_tests "$folder") || tests=
    return 0
  done
  if ! command -v nvcc >/dev/null || ! command -v cmake >/dev/null; then
    echo "error: no programs in \$PIPEPLAN_BIN, build/portable or build/release, nor nvcc and cmake to build them" >&2
    exit 1
  fi
  step build 280 tools/gpu_check.sh --build-only "$work/programs"
  passes build "built here" || { tail -n 20 "$logs/build.log" >&2; finish; }
  pipeplan=$work/programs/pipeplan
  tests=$work/programs/gpu_tests
}

# add_libraries: cuBLASLt and CUPTI may lie where no loader looks, as in a Python environment.
add_libraries() {
  local folder python_packages
  python_packages=$(command -v python3 >/dev/null &&
    timeout 20 python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64 /usr/local/cuda*/targets/*/lib \
    ${python_packages:+"$python_packages"/nvidia/*/lib}; do
    if compgen -G "$folder/libcublasLt.so.13*" >/dev/null || compgen -G "$folder/libcupti.so.13*" >/dev/null; then
      LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
    fi
  done
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
  export PIPEPLAN_CUDA_PLUGIN=${PIPEPLAN_CUDA_PLUGIN:-$(dirname "$pipeplan")/libpipeplan_cuda.so}
}

check_devices() {
  step devices 40 "$pipeplan" show devices
  grep -q '^cuda  GPU 0' "$logs/devices.log" || no_gpu "$(grep -A1 '^cuda' "$logs/devices.log" | tr '\n' ' ')"
  local gpu
  gpu=$(sed -n 's/^cuda  GPU 0: //p' "$logs/devices.log" | head -n1)
  sms=$(awk '/ SMs,/ { print $1; exit }' "$logs/devices.log")
  group=$(sed -n 's/.*green contexts from \([0-9]*\) SMs.*/\1/p' "$logs/devices.log" | head -n1)
  title="pipeplan on $gpu, $sms SMs"
  verdict NOTE devices "$gpu, $sms SMs, green contexts from ${group:-no} SMs"
  [ -n "$group" ] || { verdict FAIL green-contexts "the driver has none"; finish; }
}

# part_of COUNT: SMs of each of COUNT equal green contexts.
part_of() { echo $((sms / group / $1 * group)); }

check_layers() {
  [ -n "$tests" ] || { verdict SKIP layers "no gpu_tests beside the programs"; return; }
  step layers 60 "$tests" --success=false
  passes layers "$(grep -m1 'assertions:' "$logs/layers.log")"
  local line
  line=$(grep -m1 -o '4 parts: .* granted' "$logs/layers.log") &&
    verdict PASS disjoint-parts "$line; no SM in two parts"
}

# shape NETWORK: the flags of `profile` that say which one.
shape() {
  case $1 in
    tiny) transformer 2 64 2 32 100 4 ;;
    small) transformer 4 256 4 128 1000 8 ;;
    middle) transformer 8 768 12 512 4000 4 ;;
    large) transformer 8 1536 16 512 8000 4 ;;
    mlp) mlp 8 2048 512 64 512 ;;
    wide) mlp 8 4096 1024 256 1024 ;;
    uneven) mlp 3 2048 4096 2048 512 ;;
  esac
}
transformer() {
  echo --model transformer --blocks "$1" --hidden "$2" --heads "$3" --sequence "$4" --vocabulary "$5" \
    --microbatch-size "$6"
}
mlp() { echo --model mlp --layers "$1" --width "$2" --inputs "$3" --outputs "$4" --microbatch-size "$5"; }

# profile NETWORK PARTS [FLAG…]: measures on the whole GPU (1) or on one of PARTS equal parts.
profile() {
  local network=$1 parts=$2 name=profile-$1-$2 partition=()
  shift 2
  ((parts == 1)) || partition=(--partition "$(part_of "$parts")sm")
  # shellcheck disable=SC2046
  step "$name" 40 "$pipeplan" profile $(shape "$network") --backend cuda "${partition[@]}" --samples 10..30 \
    --longest 4s -o "$documents/$name.json" "$@"
  passes "$name" "$(grep -m1 '^total' "$logs/$name.log" | tr -s ' ')" || return
  local overhead
  overhead=$(number "$documents/$name.json" cupti_overhead_fraction)
  [ -n "$overhead" ] && overheads+=("$overhead")
}

check_profiles() {
  local network
  for network in small middle mlp; do profile $network 1; done
  profile middle 2 --probe 2 --save-cluster "$documents/cluster-2.json"
  profile middle 4 --probe 4 --save-cluster "$documents/cluster-4.json"
  for network in small mlp wide; do profile $network 2; done
  profile wide 4
  profile large 2
  check_overhead
  local factor
  factor=$(number "$documents/profile-middle-2.json" interference_factor)
  [ -z "$factor" ] || verdict NOTE interference "layers take $factor times as long beside a copying neighbour"
  local line
  line=$(grep -m1 -iE 'link|bandwidth' "$logs/profile-middle-2.log") && verdict NOTE links "$line"
}

check_overhead() {
  local middle
  middle=$(median "${overheads[@]}")
  if [ -z "$middle" ]; then
    local reason
    reason=$(grep -h -m1 -i cupti "$logs"/profile-*.log | head -n1)
    verdict FAIL cupti-overhead "no profile was measured through CUPTI: $reason"
  elif holds "$middle <= $largest_overhead"; then
    verdict PASS cupti-overhead "median $(percent "$middle") of ${#overheads[@]} profiles"
  else
    verdict FAIL cupti-overhead "median $(percent "$middle"), wanted at most $(percent $largest_overhead)"
  fi
}

check_trace() {
  # shellcheck disable=SC2046
  step trace 30 "$pipeplan" profile $(shape tiny) --backend cuda --samples 3..4 --longest 2s \
    --save-trace "$documents/trace.json" -o "$documents/profile-of-trace.json"
  passes trace "$(wc -c <"$documents/trace.json" 2>/dev/null) bytes of records" || return
  step trace-replay 20 "$pipeplan" profile --from-trace "$documents/trace.json" -o "$documents/replayed.json"
  passes trace-replay "the trace gives a profile again"
}

# plan NETWORK PARTS: for the links that were probed, where they were.
plan() {
  local name=plan-$1-$2 cluster=()
  [ -s "$documents/cluster-$2.json" ] && cluster=(--cluster "$documents/cluster-$2.json")
  step "$name" 20 "$pipeplan" plan "$documents/profile-$1-$2.json" --stages "$2" --microbatches 8 --schedule 1f1b \
    "${cluster[@]}" -o "$documents/$name.json"
  [ "$step_rc" = 0 ] || passes "$name" ""
}

# run_plan NETWORK PARTS KIND [FLAG…]: trains a plan and notes how far off the prediction was.
run_plan() {
  local network=$1 parts=$2 kind=$3 name=run-$1-$2-$3 document
  shift 3
  document=$documents/$name.json
  step "$name" 45 "$pipeplan" run "$documents/plan-$network-$parts.json" \
    --profile "$documents/profile-$network-$parts.json" --backend cuda --partitions "$kind" --iterations 15 "$@" \
    -o "$document" --trace "$documents/$name-events.json"
  [ -s "$document" ] || { passes "$name" ""; return; }
  local error measured
  error=$(number "$document" error_fraction)
  measured=$(number "$document" measured_ns)
  passes "$name" "iteration $(milliseconds "$measured"), predicted $(percent "$error") off"
  [ "$kind" = streams ] && return
  errors+=("${error#-}")
  if sed -n '/"memory":/,/"iterations_ns":/p' "$document" | grep -q '"equal": false'; then memory_differs+=("$name"); fi
}

check_runs() {
  local network
  plan small 2
  run_plan small 2 green --warm-ups 2
  local distance
  distance=$(number "$documents/run-small-2-green.json" largest_distance_fraction)
  [ -z "$distance" ] || verdict NOTE equivalence "losses, gradients, parameters within $distance of the CPU (2-norm)"
  for network in mlp wide middle large; do
    plan $network 2
    run_plan $network 2 green --no-equivalence
  done
  for network in middle wide; do
    plan $network 4
    run_plan $network 4 green --no-equivalence
  done
  run_plan middle 2 streams --no-equivalence
  check_errors
}

check_errors() {
  local middle worst
  [ ${#errors[@]} -gt 0 ] || { verdict FAIL iteration-error "nothing ran"; return; }
  middle=$(median "${errors[@]}")
  worst=$(printf '%s\n' "${errors[@]}" | sort -g | tail -n1)
  local text="median $(percent "$middle"), worst $(percent "$worst") of ${#errors[@]} runs (wanted 5 % and 10 %)"
  if holds "$middle <= 0.05 && $worst <= 0.10"; then verdict PASS iteration-error "$text"
  else verdict FAIL iteration-error "$text"; fi
  if [ ${#memory_differs[@]} = 0 ]; then verdict PASS peak-memory "as predicted to the byte on every rank"
  else verdict FAIL peak-memory "differs in ${memory_differs[*]}"; fi
}

# All cuts of a small network into two: is the chosen one the best measured?
check_splits() {
  local best="" best_cut="" chosen chosen_ns="" measured cut count rows=""
  profile uneven 2
  plan uneven 2
  [ -s "$documents/plan-uneven-2.json" ] || { verdict SKIP best-split "no plan"; return; }
  chosen=$(awk '$1 == "\"first_layer\":" && ++n == 2 { print $2 + 0 }' "$documents/plan-uneven-2.json")
  count=$(awk '$1 == "\"last_layer\":" { last = $2 + 0 } END { print last + 1 }' "$documents/plan-uneven-2.json")
  for ((cut = 1; cut < count; ++cut)); do
    awk -v cut=$cut -f tools/gpu_check/recut.awk "$documents/plan-uneven-2.json" "$documents/plan-uneven-2.json" \
      >"$documents/plan-cut$cut-2.json"
    step "split-$cut" 20 "$pipeplan" run "$documents/plan-cut$cut-2.json" --profile "$documents/profile-uneven-2.json" \
      --backend cuda --partitions green --iterations 25 --no-equivalence -o "$documents/split-$cut.json"
    measured=$(number "$documents/split-$cut.json" measured_ns)
    [ -n "$measured" ] || continue
    rows+=" $cut:$(milliseconds "$measured")"
    [ "$cut" = "$chosen" ] && chosen_ns=$measured
    if [ -z "$best" ] || holds "$measured < $best"; then best=$measured best_cut=$cut; fi
  done
  [ -n "$chosen_ns" ] || { verdict SKIP best-split "the chosen cut was not measured;$rows"; return; }
  local text="chosen before layer $chosen, best measured before layer $best_cut;$rows"
  if holds "$chosen_ns <= $best * (1 + $least_share)"; then verdict PASS best-split "$text"
  else verdict FAIL best-split "$text"; fi
}

check_sanitizer() {
  command -v compute-sanitizer >/dev/null || { verdict SKIP sanitizer "no compute-sanitizer here"; return; }
  profile tiny 2
  plan tiny 2
  step sanitizer 60 compute-sanitizer --error-exitcode 9 "$pipeplan" run "$documents/plan-tiny-2.json" --profile \
    "$documents/profile-tiny-2.json" --backend cuda --warm-ups 1 --iterations 1 --no-equivalence
  if grep -qi 'not supported' "$logs/sanitizer.log"; then verdict SKIP sanitizer "refuses this device"
  else passes sanitizer "no error on a small plan"; fi
}

# pack: a few files of a few MB, whatever the steps left behind.
pack() {
  tar -czf "$out/logs.tar.gz" -C "$work" logs
  rm -f "$documents"/plan-cut*
  tar -czf "$out/documents.tar.gz" -C "$work" --exclude='trace.json' documents
  [ -s "$documents/trace.json" ] && gzip -c "$documents/trace.json" >"$out/trace.json.gz"
  find "$out" -maxdepth 1 -type f -size +12M -print -delete | sed 's/^/too large, left out: /'
}

finish() {
  pack
  write_summary
  echo
  cat "$out/summary.txt"
  exit "$failed"
}

[ "${1:-}" != --build-only ] || { build_only "${2:?a folder for the programs}"; exit 0; }
[ $# = 0 ] || { echo "usage: tools/gpu_check.sh [--build-only DIR]" >&2; exit 2; }
gpu_there || no_gpu "neither /dev/nvidia0 nor nvidia-smi shows one"

out=${OUT:-$root/build/gpu-check}
mkdir -p "$out" || exit 1
work=$(mktemp -d)
trap clean_up EXIT
logs=$work/logs documents=$work/documents
mkdir "$logs" "$documents"
title="pipeplan on a GPU"
overheads=() errors=() memory_differs=()

find_programs
add_libraries
check_devices
check_layers
check_trace
check_profiles
check_runs
check_splits
check_sanitizer
finish
