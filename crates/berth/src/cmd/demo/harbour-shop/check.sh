#!/bin/sh
# What is on the page is what it was made from.
set -eu

grep -q "data-colour=\"$(cat colour)\"" dist/index.html
grep -q "version $(cat version)" dist/index.html
echo "the page is as it should be"
