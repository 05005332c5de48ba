#!/usr/bin/env bash
# Measures how long the command takes to start: `dalsegno --version`, and `dalsegno check` on a workspace of 200 agents.
# Usage: benches/start.sh [DALSEGNO [ROUNDS]]; prints the median and the slowest of ROUNDS (30) in milliseconds.
# What is promised: 10 ms and 300 ms, of a release build.
set -euo pipefail

dalsegno=$(realpath "${1:-target/release/dalsegno}")
rounds=${2:-30}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A hundred agents that follow steps and a hundred that a model drives, each with its own words.
"$dalsegno" init "$folder" --template chat 2> "$folder/words"
rm "$folder/agents/chat.toml"
for number in $(seq 1 100); do
  cat > "$folder/agents/plan-$number.toml" <<EOF
name = "plan-$number"
version = "1.0.0"
description = "Follows steps, as agent $number."

[[steps]]
id = "past"
memory_search = { query = "{{request.text}} $number", limit = 3 }

[[steps]]
when = "steps.past.length > 0 && request.text.length < 1000"
memory_create = { entity = "agent $number", type = "log", content = "{{request.text}}" }

[[steps]]
respond = "Known: {{steps.past.length}}, best {{steps.past[0].text}}"
EOF
  cat > "$folder/agents/model-$number.toml" <<EOF
name = "model-$number"
version = "1.0.0"
description = "Asks a model, as agent $number."
instructions = "You are agent $number. Known: {{memory.hits}}"
prompt = "{{request.text}}"

[model]
use = "default"

[memory]
recall = { query = "{{request.text}}", limit = 3 }

[tools]
allow = ["memory.search", "memory.create"]
approve = ["memory.create"]
EOF
done

measure() {
  local name=$1
  shift
  for _ in $(seq 1 "$rounds"); do
    local begun ended
    begun=$(date +%s%N)
    "$@" > "$folder/data" 2> "$folder/words" || { tail -n 20 "$folder/words" >&2; exit 1; }
    ended=$(date +%s%N)
    echo $(((ended - begun) / 1000))
  done | sort -n | awk -v name="$name" '
    { times[NR] = $1 }
    END { printf "%-20s median %.1f ms, slowest %.1f ms\n", name, times[int((NR + 1) / 2)] / 1000, times[NR] / 1000 }'
}

measure "dalsegno --version" "$dalsegno" --version
measure "dalsegno check (200)" "$dalsegno" check --workspace "$folder"
