#!/bin/sh
# Sends the page to the site, with the fencing token of the session. The site refuses tokens lower than the highest
# it has seen.
set -eu

for part in pictures prices page; do
  echo "sending the $part to $URL"
  sleep 1
done
./scripts/send.sh
