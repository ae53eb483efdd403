/** What waits for the current user: approvals, and other people who want an environment that the user holds. */
import type { Approval, Deployed, DeployedEnvironment } from "@/api/types";
import { mayDecideApproval } from "@/data/deploymentAccess";
import type { Access } from "@/data/permissions";

type Place = { pipeline: Deployed; environment: DeployedEnvironment };

export type AttentionItem =
  | { kind: "approval"; id: string; approval: Approval; pipeline: Deployed | undefined }
  | ({ kind: "takeover"; id: string } & Place)
  | ({ kind: "queue"; id: string } & Place)
  | ({ kind: "expiring"; id: string } & Place);

/** A session that ends sooner is worth a line on Home. */
const EXPIRING_MS = 15 * 60 * 1000;

/** Announced takeovers first, because they end by themselves; then approvals, expiring sessions and queues. */
export function listAttention(
  pipelines: Deployed[],
  approvals: Approval[],
  access: Access,
  me: string,
  now: number,
): AttentionItem[] {
  const held: Place[] = pipelines.flatMap(pipeline =>
    pipeline.environments
      .filter(each => each.holder?.id === me)
      .map(environment => ({ pipeline, environment })),
  );
  const idOf = (kind: string, { environment }: Place) => `${kind} ${environment.environmentId}`;
  const decidable = approvals.filter(each => mayDecideApproval(access, each, pipelines));
  return [
    ...held
      .filter(each => each.environment.takeover)
      .map(each => ({ kind: "takeover" as const, id: idOf("takeover", each), ...each })),
    ...decidable.map(approval => ({
      kind: "approval" as const,
      id: approval.id,
      approval,
      pipeline: pipelines.find(each => each.pipelineId === approval.pipelineId),
    })),
    ...held
      .filter(({ environment: { heldUntil, takeover } }) => {
        return !takeover && heldUntil && Date.parse(heldUntil) - now < EXPIRING_MS;
      })
      .map(each => ({ kind: "expiring" as const, id: idOf("expiring", each), ...each })),
    ...held
      .filter(each => each.environment.queueLength > 0 && !each.environment.takeover)
      .map(each => ({ kind: "queue" as const, id: idOf("queue", each), ...each })),
  ];
}
