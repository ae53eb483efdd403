/** Pipelines made for one test, and deployments that are waited for. */
import { withToken } from "./api";
import type { World } from "./world";

const POLL_MS = 150;
const WAIT_MS_MAX = 60_000;

/** A script step per entry: its name and what it runs. */
export function definition(name: string, steps: Record<string, string>, stages = "[{ name: production }]") {
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

export async function makePipeline(world: World, slug: string, text: string) {
  return withToken(world)("POST", "/ORG/pipelines", { slug, definition: text });
}

export async function start(world: World, slug: string, commitId: string, more: object = {}) {
  return withToken(world)("POST", `/ORG/pipelines/${slug}/deployments`, { commitId, ...more });
}

/** The deployment, once this is true of it. */
export async function when(world: World, id: string, holds: (status: string) => boolean) {
  const until = Date.now() + WAIT_MS_MAX;
  for (;;) {
    const now = await withToken(world)("GET", `/ORG/deployments/${id}`);
    if (holds(now.status)) return now;
    if (Date.now() > until) throw new Error(`deployment ${id} is still ${now.status}`);
    await new Promise(resolve => setTimeout(resolve, POLL_MS));
  }
}

export const isOver = (status: string) => ["succeeded", "failed", "cancelled", "superseded"].includes(status);

/** Started, and over. */
export async function deployed(world: World, slug: string, commitId: string, more: object = {}) {
  const { id } = await start(world, slug, commitId, more);
  return when(world, id, isOver);
}
