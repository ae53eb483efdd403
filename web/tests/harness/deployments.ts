/** Creates pipelines, and starts deployments and waits for them. */
import { withToken } from "./api";
import type { World } from "./world";

const NOT_MODIFIED = 304;
/** Seconds of a long poll. */
const POLL_S = 10;
const WAIT_MS_MAX = 60_000;

/** Returns a definition with a script step per entry: name and script. */
export function buildDefinition(
  name: string,
  steps: Record<string, string>,
  stages = "[{ name: production }]",
) {
  const text = Object.entries(steps).map(
    ([step, run]) => `    - name: ${step}
      type: script
      params:
        run: |
${run
  .split("\n")
  .map(line => `          ${line}`)
  .join("\n")}`,
  );
  return `version: 1\npipeline:\n  name: ${name}\n  stages: ${stages}\n  steps:\n${text.join("\n")}\n`;
}

export async function createPipeline(world: World, slug: string, text: string) {
  return withToken(world)("POST", "/ORG/pipelines", { slug, definition: text });
}

export async function startDeployment(world: World, slug: string, commitId: string, more: object = {}) {
  return withToken(world)("POST", `/ORG/pipelines/${slug}/deployments`, { commitId, ...more });
}

/** Returns the deployment once its status satisfies the condition. Long-polls for every change. */
export async function waitForStatus(world: World, id: string, matches: (status: string) => boolean) {
  const until = Date.now() + WAIT_MS_MAX;
  let etag = "";
  for (;;) {
    const response = await fetch(
      `${world.server}/api/v1/organizations/${world.org}/deployments/${id}${etag && `?wait=${POLL_S}`}`,
      { headers: { Authorization: `Bearer ${world.token}`, ...(etag && { "If-None-Match": etag }) } },
    );
    if (response.status !== NOT_MODIFIED) {
      const { data, ...problem } = await response.json();
      if (!response.ok) throw new Error(`deployment ${id}: ${response.status} ${JSON.stringify(problem)}`);
      if (matches(data.status)) return data;
      if (Date.now() > until) throw new Error(`deployment ${id} is still ${data.status}`);
      etag = response.headers.get("ETag") ?? "";
    } else if (Date.now() > until) throw new Error(`deployment ${id} did not change`);
  }
}

export const isFinished = (status: string) =>
  ["succeeded", "failed", "cancelled", "superseded"].includes(status);

/** Starts a deployment and waits until it has ended. */
export async function runDeployment(world: World, slug: string, commitId: string, more: object = {}) {
  const { id } = await startDeployment(world, slug, commitId, more);
  return waitForStatus(world, id, isFinished);
}
