#!/bin/sh
# Sends the page with the number of the hold. A sandbox may hide the program, for example below /tmp: curl does the same.
set -eu

if [ -x "$BERTH" ]; then
  exec "$BERTH" demo send dist/index.html --to "$URL" --commit "$BERTH_COMMIT" --who "$WHO" ${BERTH_FENCE:+--fence "$BERTH_FENCE"}
fi
exec curl -fsS -X PUT --data-binary @dist/index.html \
  -H "demo-commit: $BERTH_COMMIT" -H "demo-who: $WHO" ${BERTH_FENCE:+-H "demo-fence: $BERTH_FENCE"} "$URL"
