#!/usr/bin/env bash
# The price, a little closer to a half.
while read -r line; do
  odds=$(sed -n 's/.*"odds":\([0-9.]*\).*/\1/p' <<<"$line")
  awk -v p="${odds:-0.5}" 'BEGIN { printf "%.4f\n", 0.9 * p + 0.05 }'
done
