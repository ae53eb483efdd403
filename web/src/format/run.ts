/** Deployments, their steps and attempts, as people say it. */
import type { Deployment, DeploymentStage, DeploymentStep } from "@/api/types";

/** "started by ada", "from a push": how it came about. */
export function formatTrigger({ trigger, actor }: Pick<Deployment, "trigger" | "actor">): string {
  switch (trigger) {
    case "push":
      return "from a push";
    case "session":
      return `in the hold of ${actor.name}`;
    case "reset":
      return "to reset the environment";
    case "rollback":
      return actor.type === "user" ? `rolled back by ${actor.name}` : "rolled back by itself";
    default:
      return `started by ${actor.name}`;
  }
}

const CAUSES: Record<string, string> = {
  step_failed: "A step failed",
  timed_out: "It took too long",
  killed: "It was killed",
  lost: "Its end is not known",
  not_runnable: "It could not begin",
  commit_not_found: "There is no such commit",
  approval_rejected: "Somebody said no",
  approval_expired: "Nobody answered in time",
  soak_rejected: "Somebody rejected it while it was watched",
  requested: "Cancelled on request",
  session_ended: "The hold ended",
  drain_overridden: "Somebody did not wait for it",
  environment_deleted: "The environment is gone",
};

export function formatCause(cause: string): string {
  return CAUSES[cause] ?? cause.replaceAll("_", " ");
}

const ATTEMPTS: Record<DeploymentStep["attempts"][number]["status"], string> = {
  running: "running",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
  interrupted: "interrupted by a stop of the server",
  unknown: "nobody knows how it ended",
  never_started: "never started",
};

export function formatAttempt(attempt: DeploymentStep["attempts"][number]): string {
  const code =
    attempt.exitCode != null && attempt.exitCode !== 0 ? ` with exit code ${attempt.exitCode}` : "";
  return `${ATTEMPTS[attempt.status]}${code}`;
}

export function isOver(status: Deployment["status"]): boolean {
  return ["succeeded", "failed", "cancelled", "superseded"].includes(status);
}

/** How long it took, or has taken so far; null before it began. */
export function seconds(it: { startedAt?: string | null; finishedAt?: string | null }, now: number) {
  if (!it.startedAt) return null;
  const end = it.finishedAt ? Date.parse(it.finishedAt) : now;
  return Math.max(0, (end - Date.parse(it.startedAt)) / 1000);
}

/** A step that waits for a person because its end is not known. */
export function isUnknown(step: DeploymentStep): boolean {
  return step.status === "waiting" && step.type !== "approval" && step.type !== "soak";
}

export type StepPlace = { stage: DeploymentStage; step: DeploymentStep };

export function places(deployment: Deployment): StepPlace[] {
  return deployment.stages.flatMap(stage => (stage.steps ?? []).map(step => ({ stage, step })));
}

/** The step to show first: failed, waiting for a person, running, or the last that ran. */
export function worthALook(deployment: Deployment): StepPlace | undefined {
  const all = places(deployment);
  return (
    all.findLast(({ step }) => step.status === "failed") ??
    all.find(({ step }) => isUnknown(step)) ??
    all.findLast(({ step }) => step.status === "running") ??
    all.find(({ step }) => step.status === "waiting") ??
    all.findLast(({ step }) => step.attempts.length > 0) ??
    all[0]
  );
}
