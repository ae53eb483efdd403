// A TCP proxy that loses the first response to a claim, or all traffic.

import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface LossyProxy extends AsyncDisposable {
  readonly url: string;
  /** From now on, every connection is closed. */
  readonly block: () => void;
  /** Number of claims that reached the server. */
  readonly claims: () => number;
}

/** With `losesClaim`, loses the first response to a claim. */
export async function startLossyProxy(target: string, losesClaim: boolean): Promise<LossyProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let claims = 0;
  let isBlocked = false;
  const server = createServer((client) => {
    if (isBlocked) {
      client.destroy();
      return;
    }
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket.on("error", () => {}));
      socket.on("close", () => {
        client.destroy();
        upstream.destroy();
      });
    }
    let isLost = false;
    client.on("data", (chunk) => {
      if (/^POST \S+\/sessions /.test(chunk.toString("latin1"))) isLost = ++claims === 1 && losesClaim;
      upstream.write(chunk);
    });
    upstream.on("data", (chunk) => (isLost ? client.destroy() : client.write(chunk)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    claims: () => claims,
    block: () => {
      isBlocked = true;
      for (const socket of sockets) socket.destroy();
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
