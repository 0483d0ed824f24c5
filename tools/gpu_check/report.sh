# Sourced by gpu_check.sh: runs steps under a time limit, keeps their logs, collects verdicts and writes them down.

step_rc=0        # of the last step; 124: its time ran out, 125: no time was left for it
checks=()        # "status|name|detail"
failed=0

# seconds_left: until the whole check must be over.
seconds_left() { echo $((deadline - SECONDS)); }

# step NAME LIMIT COMMAND…: runs the command for at most LIMIT seconds; its output goes to the log of that name.
step() {
  local name=$1 limit=$2 left
  shift 2
  left=$(seconds_left)
  if ((left < 3)); then
    step_rc=125
    echo "no time left" >"$logs/$name.log"
    return $step_rc
  fi
  ((limit > left)) && limit=$left
  printf '   … %-34s ' "$name" >&2
  local began=$SECONDS
  { printf '$'; printf ' %q' "$@"; echo; } >"$logs/$name.log"
  timeout -k 5 "$limit" "$@" >>"$logs/$name.log" 2>&1
  step_rc=$?
  echo "rc $step_rc, $((SECONDS - began)) s" >&2
  return $step_rc
}

# verdict STATUS NAME DETAIL: one line of the result. STATUS: PASS, FAIL, SKIP or NOTE.
verdict() {
  checks+=("$1|$2|$3")
  printf '%-4s  %-34s %s\n' "$1" "$2" "$3"
  [ "$1" != FAIL ] || failed=1
}

# why NAME: the reason in the log of a step that failed, on one line.
why() {
  case $step_rc in
    124 | 137) echo "took longer than it was given" ;;
    125) echo "no time left" ;;
    *) local line
      line=$(grep -m1 '^error:' "$logs/$1.log") || line=$(tail -n1 "$logs/$1.log")
      echo "exit code $step_rc: $line" ;;
  esac
}

# passes NAME DETAIL: PASS or FAIL by the last step's exit code. Running out of time in all is not a failure.
passes() {
  case $step_rc in
    0) verdict PASS "$1" "$2" ;;
    125) verdict SKIP "$1" "no time left" ;;
    *) verdict FAIL "$1" "$(why "$1")" ;;
  esac
  return $step_rc
}

# number FILE KEY: the first number (or quoted number) of that key in a document with a key per line.
number() {
  awk -v key="\"$2\":" '$1 == key { gsub(/[",]/, "", $2); print $2; exit }' "$1" 2>/dev/null
}

# holds EXPRESSION: whether an awk condition on numbers is true.
holds() { awk "BEGIN { exit !($1) }"; }

percent() { awk -v x="$1" 'BEGIN { printf "%+.2f %%", 100 * x }'; }
milliseconds() { awk -v x="$1" 'BEGIN { printf "%.3f ms", x / 1e6 }'; }

# median NUMBERS…; nothing of none.
median() { printf '%s\n' "$@" | sort -g | awk 'NF { a[NR] = $1 } END { if (NR) print a[int((NR + 1) / 2)] }'; }

json_text() { printf '%s' "$1" | tr '\n\t' '  ' | sed 's/\\/\\\\/g; s/"/\\"/g'; }

# write_summary: all verdicts as text and as a document.
write_summary() {
  local row status name detail comma=""
  {
    echo "$title"
    for row in "${checks[@]}"; do
      IFS='|' read -r status name detail <<<"$row"
      printf '%-4s  %-34s %s\n' "$status" "$name" "$detail"
    done
    echo "$([ $failed = 0 ] && echo passed || echo FAILED) after $SECONDS s"
  } >"$out/summary.txt"
  {
    printf '{\n  "title": "%s",\n  "failed": %s,\n  "seconds": %s,\n  "checks": [' "$(json_text "$title")" \
      "$([ $failed = 0 ] && echo false || echo true)" "$SECONDS"
    for row in "${checks[@]}"; do
      IFS='|' read -r status name detail <<<"$row"
      printf '%s\n    {"name": "%s", "status": "%s", "detail": "%s"}' "$comma" "$(json_text "$name")" "$status" \
        "$(json_text "$detail")"
      comma=,
    done
    printf '\n  ]\n}\n'
  } >"$out/summary.json"
}
