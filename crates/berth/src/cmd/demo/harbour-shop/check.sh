#!/bin/sh
# Checks that the page has the right colour and version.
set -eu

grep -q "data-colour=\"$(cat colour)\"" dist/index.html
grep -q "version $(cat version)" dist/index.html
echo "the page is correct"
