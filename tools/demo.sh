#!/usr/bin/env bash
# The main job on this machine's CPU, from a bare Debian machine on: installs what is missing, builds, then profiles a
# transformer, plans it on two stages beside the even split, predicts, runs both plans and compares.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_missing "${build_packages[@]}"
configure_flags=(-DBUILD_TESTING=OFF)
build release pipeplan

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pipeplan=$PWD/build/release/pipeplan
cd "$work"

step() { printf '\n== %s\n' "$1"; }
show() { printf '$ pipeplan %s\n' "$*"; "$pipeplan" "$@"; }

step "1. profile: what each layer of a transformer costs on this CPU"
show profile --model transformer --blocks 6 --hidden 192 --heads 4 --sequence 128 --vocabulary 4000 --microbatch-size 4 -o profile.json
step "2. plan: where to cut it into two stages, and the even split for comparison"
show plan profile.json --stages 2 --microbatches 8 --schedule 1f1b -o plan.json
show plan profile.json --stages 2 --microbatches 8 --schedule 1f1b --algorithm even -o even.json
step "3. simulate: what to expect of the plan"
show simulate plan.json --profile profile.json
step "4. run: real training of both plans, held against the prediction"
status=0
show run even.json --profile profile.json --iterations 15 --tolerance 10% -o even-run.json || status=$?
show run plan.json --profile profile.json --iterations 15 --tolerance 10% -o plan-run.json || status=$?

# One number of a comparison document's iteration, in ms.
iteration_ms() { awk -v key="\"$2\":" '$1 == key { printf "%.1f ms", $2 / 1e6; exit }' "$1"; }
step "5. both plans: iteration time"
row() { printf '%-12s %12s %12s %12s\n' "$@"; }
row plan sizes predicted measured
row even "$("$pipeplan" show even.json --as sizes)" "$(iteration_ms even-run.json predicted_ns)" "$(iteration_ms even-run.json measured_ns)"
row chain-dp "$("$pipeplan" show plan.json --as sizes)" "$(iteration_ms plan-run.json predicted_ns)" "$(iteration_ms plan-run.json measured_ns)"
exit $status
