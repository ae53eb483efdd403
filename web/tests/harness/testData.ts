/** Test data: members, pipelines, deployments and sessions. Each spec file lists the parts it needs. */
import { addMember, logInAs, withToken } from "./api";
import { createPipeline, isFinished, runDeployment, startDeployment, waitForStatus } from "./deployments";
import type { World } from "./world";

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
      params: { message: "3 migrations" }
    - name: Deploy
      type: dummy
      params: { message: "deployed" }
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

const QUAY = `version: 1
pipeline:
  name: Quay
  stages:
    - name: production
  steps:
    - name: Deploy
      type: dummy
      params: { message: "deployed" }
  ephemeral_environments:
    quay-1: {}
    quay-2:
      ttl: 1h
`;

export type DataPart =
  | "grace"
  | "linus"
  | "vera"
  | "ci"
  | "checkout"
  | "search"
  | "warehouse"
  | "quay"
  | "secret"
  | "approval"
  | "deployments"
  | "crane"
  | "sessions";

type RequireParts = (...parts: DataPart[]) => Promise<unknown>;

/** Creates each part. A part requests the parts it depends on. */
const PARTS: Record<DataPart, (world: World, need: RequireParts) => Promise<unknown>> = {
  grace: world => addMember(world, world.grace, "Grace Hopper", "deployer"),
  linus: world => addMember(world, world.linus, "Linus", "deployer"),
  vera: world => addMember(world, world.vera, "Vera", "viewer"),
  ci: world =>
    withToken(world)("POST", "/ORG/members", {
      email: "ci@acme.test",
      name: "ci",
      role: "deployer",
      kind: "service",
    }),
  checkout: world => createPipeline(world, "checkout", CHECKOUT),
  search: world => createPipeline(world, "search", SEARCH),
  warehouse: world => createPipeline(world, "warehouse", SLOW),
  quay: world => createPipeline(world, "quay", QUAY),
  secret: world =>
    withToken(world)("POST", "/ORG/secrets", {
      name: "DEPLOY_KEY",
      value: "s3cr3t-deploy-key",
      description: "for rsync",
    }),
  approval: addApproval,
  deployments: addDeployments,
  crane: holdDock,
  sessions: addSessions,
};

/** Creates these parts and their dependencies, each once, in parallel where possible. */
export async function addTestData(world: World, parts: DataPart[]) {
  const started = new Map<DataPart, Promise<unknown>>();
  const begin = (part: DataPart): Promise<unknown> => {
    const running = started.get(part) ?? PARTS[part](world, need);
    started.set(part, running);
    return running;
  };
  const need: RequireParts = (...wanted) => Promise.all(wanted.map(begin));
  await need(...parts);
}

/** v1.0.0 of Checkout is in production, v1.1.0 waits for approval. */
async function addApproval(world: World, need: RequireParts) {
  await need("checkout");
  const ada = withToken(world);
  const isWaiting = (status: string) => status === "waiting";
  const first = await startDeployment(world, "checkout", "v1.0.0");
  await waitForStatus(world, first.id, isWaiting);
  const [asked] = await ada("GET", `/ORG/approvals?deployment=${first.id}`);
  await ada("POST", `/ORG/approvals/${asked.id}/approve`, { comment: "looks good" });
  await waitForStatus(world, first.id, isFinished);
  const second = await startDeployment(world, "checkout", "v1.1.0");
  await waitForStatus(world, second.id, isWaiting);
}

/** Succeeded deployments and a failed one. */
async function addDeployments(world: World, need: RequireParts) {
  await need("search");
  await Promise.all([
    runDeployment(world, "playground", "hello"),
    runDeployment(world, "search", "8c1f3a9").then(() => runDeployment(world, "search", "broken-index")),
  ]);
}

/** Grace holds dock-1 with a deployment that runs longer than the tests. */
async function holdDock(world: World, need: RequireParts) {
  await need("grace", "warehouse");
  const grace = await logInAs(world, world.grace);
  await grace("POST", "/ORG/pipelines/warehouse/ephemeral-environments/dock-1/sessions", {
    commitId: "crane",
    context: "crane calibration",
  });
}

/** Sessions on Checkout's environments: qa-1 with a queue, qa-2, and four past sessions on demo. */
async function addSessions(world: World, need: RequireParts) {
  await need("grace", "linus", "checkout");
  const ada = withToken(world);
  const [grace, linus] = await Promise.all([logInAs(world, world.grace), logInAs(world, world.linus)]);
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
  for (const [who, context] of [
    [grace, "a demo for sales"],
    [linus, "checking the prices"],
    [ada, "a look at the logs"],
    [grace, "the demo again"],
  ] as const) {
    const held = await who("POST", `${environments}/demo/sessions`, { context, ttlSeconds: 600 });
    await who("DELETE", `${environments}/demo/sessions/${held.id}`);
  }
}
