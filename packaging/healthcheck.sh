#!/bin/bash
# Is the server of this container alive? It is asked where BERTH_LISTEN says.
# Whether it speaks TLS is known only to it: one that does answers plain HTTP with an alert (a record of type 21, version 3),
# and whoever can send that is alive too.
host=${BERTH_LISTEN%:*} port=${BERTH_LISTEN##*:}
host=${host#[} host=${host%]}
exec 3<>"/dev/tcp/$host/$port" || exit 1
# In one piece, which the printf of bash does not do: a server that has answered the first line hangs up, and the next
# line would have the answer thrown away.
/usr/bin/printf 'GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3 || exit 1
# A server that hangs is connected to by the kernel, and says nothing.
LC_ALL=C IFS= read -r -t 2 answer <&3
case $answer in
  'HTTP/1.'[01]' 200 '*) ;;
  $'\x15\x03'*) ;;
  *) echo "no answer of a server at $BERTH_LISTEN" && exit 1 ;;
esac
