import type { Pipeline } from "@/api/types";
import { type Access, listReadableEnvironments } from "@/data/permissions";

export type FoundEnvironments = { pipeline: Pipeline; envNames: string[] };

/** Readable environments whose pipeline or own name contains the text; all without a text. */
export function findEnvironments(pipelines: Pipeline[], access: Access, search = ""): FoundEnvironments[] {
  const text = search.toLowerCase();
  const has = (name: string) => name.toLowerCase().includes(text);
  const found = pipelines.map(pipeline => {
    const all = listReadableEnvironments(access, pipeline);
    return { pipeline, envNames: has(pipeline.name) || has(pipeline.slug) ? all : all.filter(has) };
  });
  return found.filter(each => each.envNames.length > 0);
}
