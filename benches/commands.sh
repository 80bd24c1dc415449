#!/usr/bin/env bash
# Timings of whole commands, as people run them: start of the process, catalogue, search, output.
#
#   benches/commands.sh             build the release binary, run, print a table
#   benches/commands.sh --build     also build the binary from an empty target directory
#
# RUNS sets how often each command runs (5), of which the table has the medians. GPUWISE names a
# binary to measure instead of building one. GPUWISE_DATA names the directory in which `questions/`
# lies (../shared/data); without it the row that needs it is skipped, and the last lines say so.
#
# The exit code is 1 where a bound is missed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C NO_COLOR=1 COLUMNS=100

runs=${RUNS:-5}
data=${GPUWISE_DATA:-../shared/data}
model=meta-llama/Llama-3.1-70B-Instruct
rows=10000
build=no
for argument in "$@"; do
  case $argument in
    --build) build=yes ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missed=0
skipped=()

if [[ -z ${GPUWISE:-} ]]; then
  cargo build --quiet --release --locked -p gpuwise
  GPUWISE=${CARGO_TARGET_DIR:-target}/release/gpuwise
fi
# Not from this user's measurements, caches and settings.
gpuwise=(env -u GPUWISE_CATALOGUE HOME="$work" XDG_CONFIG_HOME="$work" XDG_DATA_HOME="$work" XDG_CACHE_HOME="$work"
  HF_HOME="$work" "$GPUWISE")

# The middle one of the numbers given, one a line.
median() { sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

# Peak memory of a command in MB, `–` where no GNU time is.
peak() {
  if ! /usr/bin/time -v true >/dev/null 2>&1; then echo "–"; return; fi
  /usr/bin/time -v "$@" 2>&1 >/dev/null |
    awk '/Maximum resident set size/ { printf "%.0f\n", $NF * 1.024 / 1000 }'
}

# Whether a number is at most another; always where it is not known.
within() { [[ $1 == – ]] || awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }'; }

# row NAME SECONDS MEGABYTES COMMAND...: runs a command and prints its row; bounds may be `-`.
row() {
  local name=$1 seconds=$2 megabytes=$3 wall user system memory bound="–" verdict="–" run
  shift 3
  "$@" >/dev/null # Read from disk once; it must succeed.
  : >"$work/times"
  for ((run = 0; run < runs; run++)); do
    { TIMEFORMAT='%R %U %S'; time "$@" >/dev/null 2>&1; } 2>>"$work/times"
  done
  wall=$(cut -d' ' -f1 "$work/times" | median)
  user=$(cut -d' ' -f2 "$work/times" | median)
  system=$(cut -d' ' -f3 "$work/times" | median)
  memory=$(peak "$@")
  if [[ $seconds != - ]]; then
    bound="≤ $seconds s"
    verdict=kept
    within "$wall" "$seconds" || verdict=MISSED
  fi
  if [[ $megabytes != - ]]; then
    bound+=", $megabytes MB"
    within "$memory" "$megabytes" || verdict=MISSED
  fi
  if [[ $verdict == MISSED ]]; then missed=1; fi
  printf '| %s | %s | %s | %s | %s | %s | %s |\n' \
    "$name" "$wall" "$user" "$system" "$memory" "$bound" "$verdict"
}

# So many rows of all tables of questions, evenly spaced; where they are fewer, again from the first.
questions() {
  awk -v wanted="$rows" '
    NR == 1 { print }
    FNR > 1 { line[count++] = $0 }
    END {
      step = count > wanted ? count / wanted : 1
      for (at = 0; at < wanted; at++) print line[int(at * step) % count]
    }' "$data"/questions/*.csv
}

echo "| command | wall, s | user, s | system, s | peak, MB | bound | |"
echo "|---|--:|--:|--:|--:|---|---|"

cat >"$work/one.csv" <<EOF
id,model,gpu,num_gpus,tp,precision,engine,isl,osl,batch_or_concurrency,metric,unit
1,$model,H100 SXM5 80GB,4,4,fp8,vllm,2000,300,16,tpot_mean,ms
EOF
traffic=(--rate 8 --isl 2000 --osl 300 --ttft p95:1s --tpot p95:40ms --offline)
plan=("${gpuwise[@]}" plan "$model" "${traffic[@]}")

row "one question about one GPU: \`predict\`" 0.1 60 "${gpuwise[@]}" predict "$work/one.csv" --offline
row "one question about one GPU: \`memory\`" 0.1 60 \
  "${gpuwise[@]}" memory "$model" --gpu "H100 SXM5 80GB" --tp 4 --context 8192 --concurrency 16 --offline
row "one question about one GPU: \`plan --gpu\`" 0.1 60 "${plan[@]}" --gpu "H100 SXM5 80GB"
row "a plan over the whole catalogue, with slices" 1 - "${plan[@]}"
for varied in openai/gpt-oss-120b Qwen/Qwen3-Next-80B-A3B-Instruct; do
  row "the same of \`$varied\`, whose layers alternate" 1 - \
    "${gpuwise[@]}" plan "$varied" "${traffic[@]}"
done
row "a plan with its HTML report" 1 - "${plan[@]}" --html "$work/report.html"
if compgen -G "$data/questions/*.csv" >/dev/null; then
  questions >"$work/many.csv"
  row "$rows rows of \`predict\`" 5 - "${gpuwise[@]}" predict "$work/many.csv" --offline
else
  skipped+=("$rows rows of predict: no tables in $data/questions (set GPUWISE_DATA)")
fi
if [[ $build == yes ]]; then
  cargo fetch --quiet --locked
  { TIMEFORMAT='%R %U %S'; time CARGO_TARGET_DIR="$work/target" \
    cargo build --quiet --release --locked -p gpuwise >&2; } 2>"$work/build"
  read -r wall user system < <(tail -n 1 "$work/build")
  printf '| clean build of the binary, once | %s | %s | %s | – | – | – |\n' "$wall" "$user" "$system"
fi

size=$(($(wc -c <"$work/report.html") / 1000))
verdict=kept
if ((size > 300)); then verdict=MISSED missed=1; fi
printf '\nHTML report: %d kB of 300 kB: %s\n' "$size" "$verdict"
echo "Median of $runs runs. Wall time grows with whatever else runs on the machine; user and system time hardly do."
for reason in "${skipped[@]+"${skipped[@]}"}"; do echo "SKIPPED: $reason" >&2; done
exit "$missed"
