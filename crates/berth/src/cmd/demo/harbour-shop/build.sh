#!/bin/sh
# Builds the page.
set -eu

colour=$(cat colour)
version=$(cat version)
case $colour in
  blue) paint='#1d5fbf' ;;
  green) paint='#1a7f4b' ;;
  dark) paint='#14181f' ;;
  amber) paint='#b45309' ;;
  *) echo "build.sh: unknown colour \"$colour\"" >&2; exit 1 ;;
esac

mkdir -p dist
{
  echo "<section data-colour=\"$colour\" style=\"background:$paint\">"
  echo "<h1>Harbour shop</h1>"
  echo "<p class=\"version\">version $version</p>"
  echo "<ul>"
  while read -r price thing; do echo "<li><b>$price</b> $thing</li>"; done < prices
  echo "</ul>"
  echo "</section>"
} > dist/index.html

echo "version=$version" >> "$BERTH_OUTPUT"
echo "built version $version in $colour: $(wc -c < dist/index.html) bytes"
