/** A harbour with some life in it: people, pipelines, holds, a line, something that failed and something that waits. */
import { as, type Caller, withToken } from "./api";
import type { World } from "./world";

const WAIT_S = 40;

const CHECKOUT = `version: 1
pipeline:
  name: Checkout
  tracks: main
  stages:
    - name: staging
    - name: production
      requires: { approvals: 1 }
  steps:
    - name: Migrate
      type: dummy
      params: { duration: 1s, message: "3 migrations" }
    - name: Deploy
      type: dummy
      params: { duration: 1s, message: "deployed" }
  ephemeral_environments:
    qa-1:
      ttl: 8h
    qa-2:
      ttl: 2h
    demo:
      labels: [sales]
`;

const SEARCH = `version: 1
pipeline:
  name: Search
  stages:
    - name: staging
    - name: canary
    - name: production
  steps:
    - name: Deploy
      type: script
      params: { run: 'echo "indexing"; case "$BERTH_COMMIT" in broken*) echo "no such index: products" >&2; exit 3;; esac' }
  ephemeral_environments:
    perf:
      ttl: 4h
`;

const SLOW = `version: 1
pipeline:
  name: Warehouse
  stages:
    - name: production
  steps:
    - name: Deploy
      type: dummy
      params: { duration: 10m, message: "slowly" }
  ephemeral_environments:
    dock-1: {}
    dock-2: {}
`;

async function person(ada: Caller, email: string, name: string, role: string) {
  const added = await ada("POST", "/ORG/members", { email, name, role });
  return { email, password: added.oneTimePassword as string };
}

async function deploy(ada: Caller, pipeline: string, commitId: string, until: (status: string) => boolean) {
  const started = await ada("POST", `/ORG/pipelines/${pipeline}/deployments`, { commitId });
  for (;;) {
    const now = await ada("GET", `/ORG/deployments/${started.id}`);
    if (until(now.status)) return now;
    await new Promise(resolve => setTimeout(resolve, 200));
  }
}

const ended = (status: string) => ["succeeded", "failed", "cancelled"].includes(status);

export async function fill(world: World) {
  const ada = withToken(world);
  world.grace = await person(ada, "grace@acme.test", "Grace Hopper", "deployer");
  world.linus = await person(ada, "linus@acme.test", "Linus", "deployer");
  world.vera = await person(ada, "vera@acme.test", "Vera", "viewer");
  await ada("POST", "/ORG/members", { email: "ci@acme.test", name: "ci", role: "deployer", kind: "service" });
  for (const [slug, definition] of Object.entries({ checkout: CHECKOUT, search: SEARCH, warehouse: SLOW })) {
    await ada("POST", "/ORG/pipelines", { slug, definition });
  }
  await ada("POST", "/ORG/secrets", {
    name: "DEPLOY_KEY",
    value: "s3cr3t-deploy-key",
    description: "for rsync",
  });

  const first = deploy(ada, "checkout", "v1.0.0", status => status === "waiting");
  await Promise.all([
    deploy(ada, "search", "8c1f3a9", ended),
    deploy(ada, "playground", "hello", ended),
    first.then(async found => {
      const [asked] = await ada("GET", `/ORG/approvals?deployment=${found.id}`);
      await ada("POST", `/ORG/approvals/${asked.id}/approve`, { comment: "looks good" });
      await ada("GET", `/ORG/deployments/${found.id}?wait=${WAIT_S}`);
      await deploy(ada, "checkout", "v1.1.0", status => status === "waiting");
    }),
  ]);
  await deploy(ada, "search", "broken-index", ended);

  const grace = await as(world, world.grace);
  const linus = await as(world, world.linus);
  await as(world, world.vera);
  await as(world, world.ada);
  const environments = "/ORG/pipelines/checkout/ephemeral-environments";
  await grace("POST", `${environments}/qa-1/sessions`, {
    commitId: "feature/cart",
    context: "load test of the new cart",
  });
  await linus("POST", `${environments}/qa-1/sessions`, {
    commitId: "feature/dark",
    context: "dark mode",
    queue: true,
  });
  await ada("POST", `${environments}/qa-2/sessions`, { commitId: "v1.2.0-rc1", context: "release check" });
  const past = await grace("POST", `${environments}/demo/sessions`, {
    context: "a demo for sales",
    ttlSeconds: 600,
  });
  await grace("DELETE", `${environments}/demo/sessions/${past.id}`);
  for (const [who, context] of [
    [linus, "checking the prices"],
    [ada, "a look at the logs"],
    [grace, "the demo again"],
  ] as const) {
    const held = await who("POST", `${environments}/demo/sessions`, { context });
    await who("DELETE", `${environments}/demo/sessions/${held.id}`);
  }
  await grace("POST", "/ORG/pipelines/warehouse/ephemeral-environments/dock-1/sessions", {
    commitId: "crane",
    context: "crane calibration",
  });
}
