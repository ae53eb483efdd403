#!/bin/bash
# Container health check: requests /healthz at the address in BERTH_LISTEN. A server with TLS responds to plain HTTP with a TLS
# alert (record type 21, version 3), which counts as healthy.
host=${BERTH_LISTEN%:*} port=${BERTH_LISTEN##*:}
host=${host#[} host=${host%]}
exec 3<>"/dev/tcp/$host/$port" || exit 1
# /usr/bin/printf writes the request at once. The bash builtin writes line by line, and if the server closes the connection after
# the first line, writing the next would discard the response.
/usr/bin/printf 'GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3 || exit 1
# The kernel accepts connections for a server that hangs, so require a response.
LC_ALL=C IFS= read -r -t 2 answer <&3
case $answer in
  'HTTP/1.'[01]' 200 '*) ;;
  $'\x15\x03'*) ;;
  *) echo "no response from a server at $BERTH_LISTEN" && exit 1 ;;
esac
