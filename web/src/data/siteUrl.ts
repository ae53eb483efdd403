/** Address of the site that a deployment serves. */
import type { Deployment, Me } from "@/api/types";
import { safeUrl } from "@/format/analysis";

/** Slug of the demo's pipeline, whose sites the server knows. */
const DEMO_PIPELINE = "shop";

/** The output `url` of the last step that has one; on a demo server, the site of the stage or environment. */
export function siteUrl(
  deployment: Pick<Deployment, "stages" | "envName">,
  pipeline: string | undefined,
  demo: Me["demo"],
): string | undefined {
  const succeeded = deployment.stages.filter(stage => stage.kind !== "build" && stage.status === "succeeded");
  const outputs = succeeded.flatMap(stage => stage.steps ?? []).map(step => safeUrl(step.outputs.url));
  const last = succeeded.at(-1);
  const place = last && (deployment.envName ?? last.name);
  const site = pipeline === DEMO_PIPELINE ? demo?.sites.find(each => each.place === place) : undefined;
  return outputs.findLast(Boolean) ?? safeUrl(site?.url);
}
