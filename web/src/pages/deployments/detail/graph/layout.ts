/** Positions of a deployment's stages and of their steps, from top to bottom. */
import dagre from "@dagrejs/dagre";
import type { DeploymentStage } from "@/api/types";

export const STEP = { width: 196, height: 42 };
const STAGE = { head: 44, pad: 14, gap: 28, widthMin: 196 + 2 * 14, emptyHeight: 40 };
const BETWEEN = { steps: 12, ranks: 22 };

export type PlacedNode = { id: string; x: number; y: number; width: number; height: number };
export type PlacedStage = PlacedNode & {
  stage: DeploymentStage;
  steps: PlacedNode[];
  links: [string, string][];
};

export function layoutStages(stages: DeploymentStage[]): {
  stages: PlacedStage[];
  width: number;
  height: number;
} {
  const inners = stages.map(stage => ({ stage, inner: layoutSteps(stage) }));
  const width = Math.max(STAGE.widthMin, ...inners.map(({ inner }) => inner.width + 2 * STAGE.pad));
  const placed: PlacedStage[] = [];
  let y = 0;
  for (const { stage, inner } of inners) {
    const shift = (width - inner.width) / 2;
    const height = STAGE.head + (inner.height || STAGE.emptyHeight) + STAGE.pad;
    placed.push({
      id: stage.name,
      stage,
      x: 0,
      y,
      width,
      height,
      links: inner.links,
      steps: inner.steps.map(step => ({ ...step, x: step.x + shift, y: step.y + STAGE.head })),
    });
    y += height + STAGE.gap;
  }
  return { stages: placed, width, height: Math.max(0, y - STAGE.gap) };
}

function layoutSteps(stage: DeploymentStage) {
  const steps = stage.steps ?? [];
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: BETWEEN.steps, ranksep: BETWEEN.ranks });
  graph.setDefaultEdgeLabel(() => ({}));
  const idOf = new Map(steps.map(step => [step.step, step.id]));
  const links: [string, string][] = [];
  for (const step of steps) {
    graph.setNode(step.id, { ...STEP });
    for (const need of step.needs) {
      const from = idOf.get(need);
      if (from) links.push([from, step.id]);
    }
  }
  for (const [from, to] of links) graph.setEdge(from, to);
  dagre.layout(graph);
  const placed = steps.map(({ id }) => {
    const { x, y } = graph.node(id);
    return { id, x: x - STEP.width / 2, y: y - STEP.height / 2, ...STEP };
  });
  const width = Math.max(0, ...placed.map(each => each.x + each.width));
  const height = Math.max(0, ...placed.map(each => each.y + each.height));
  return { steps: placed, links, width, height };
}
