// Claims an environment with the queue, prints when it waits and when it holds it, and never releases it by itself.

import { Berth } from "berth-sdk";

const [environment = ""] = process.argv.slice(2);
await using session = await new Berth().session(environment, {
  queue: true,
  onQueue: ({ position }) => console.log(`position ${position}`),
});
console.log(`fence ${session.fence}`);
setInterval(() => {}, 1000);
await session.whenAborted();
