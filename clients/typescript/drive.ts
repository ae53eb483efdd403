// Claims an environment, deploys, watches, and releases, with a client generated from openapi.json.
// `cargo xtask clients` generates it into ./berth, compiles both and runs this against a real server.

import {
  claimSession,
  deployCommit,
  getDeployment,
  getSession,
  releaseSession,
} from "./berth";
import { client } from "./berth/client.gen";

declare const process: { env: Record<string, string | undefined>; exitCode: number };

const WAIT_SECONDS = 10;
const POLLS_MAX = 6;

function variable(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

async function drive(): Promise<void> {
  client.setConfig({ baseUrl: variable("BERTH_URL"), auth: variable("BERTH_TOKEN") });
  const path = {
    orgId: variable("BERTH_ORGANIZATION"),
    pipelineId: variable("BERTH_PIPELINE"),
    envName: variable("BERTH_ENVIRONMENT"),
  };

  const claimed = await claimSession({ path, body: { context: "generated client" } });
  check(claimed.data !== undefined, `claim: ${JSON.stringify(claimed.error)}`);
  check("lockStatus" in claimed.data.data, "claim: queued instead of claimed");
  const session = { ...path, sessionId: claimed.data.data.sessionId };

  const started = await deployCommit({ path: session, body: { commitId: "9fceb02" } });
  check(started.data !== undefined, `deploy: ${JSON.stringify(started.error)}`);
  const deploymentId = started.data.data.deploymentId;

  let status = started.data.data.status;
  for (let poll = 0; status !== "succeeded" && poll < POLLS_MAX; poll++) {
    check(status === "queued" || status === "running", `status: ${status}`);
    const seen = await getDeployment({
      path: { orgId: path.orgId, deploymentId },
      query: { wait: WAIT_SECONDS },
    });
    check(seen.data !== undefined, `status: ${JSON.stringify(seen.error)}`);
    status = seen.data.data.status;
  }
  check(status === "succeeded", `status: still ${status}`);

  const held = await getSession({ path: session });
  check(held.data?.data.lockStatus === "locked", "session: not locked");
  check(held.data.data.deploymentHistory[0]?.deploymentId === deploymentId, "session: no deployment");

  const released = await releaseSession({ path: session });
  check(released.data?.data.lockStatus === "unlocked", `release: ${JSON.stringify(released.error)}`);

  const late = await deployCommit({ path: session, body: { commitId: "9fceb02" } });
  check(late.error?.status === 409, `deploy after release: ${JSON.stringify(late.data)}`);
}

drive().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
