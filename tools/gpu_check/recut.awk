# Cuts a plan of two stages before layer `cut` instead: awk -v cut=3 -f recut.awk plan.json plan.json. Reads the plan
# twice, first for the names of the layers; relies on the form in which pipeplan writes documents, a value per line.
# Objective and prediction stay those of the old cut.

FNR == NR {
  if (/"layers": \[/) { listing = 1; next }
  if (/\]/) listing = 0
  if (listing) { gsub(/^ *"|",? *$/, ""); names[count++] = $0 }
  next
}

/"layers": \[/ {
  print
  first = stage == 0 ? 0 : cut
  end = stage == 0 ? cut : count
  ++stage
  for (i = first; i < end; ++i) printf "        \"%s\"%s\n", names[i], i + 1 < end ? "," : ""
  replaced = 1
  next
}
replaced && !/\]/ { next }
{ replaced = 0 }
/"first_layer":/ { sub(/[0-9]+/, first) }
/"last_layer":/ { sub(/[0-9]+/, end - 1) }
{ print }
