/** Texts for deployments, steps and attempts. */
import type { Deployment, DeploymentStage, DeploymentStep } from "@/api/types";
import { formatDuration, formatRoughDuration } from "./time";

/** "started by ada", "triggered by a push". */
export function formatTrigger({ trigger, actor }: Pick<Deployment, "trigger" | "actor">): string {
  switch (trigger) {
    case "push":
      return "triggered by a push";
    case "session":
      return `deployed by ${actor.name}`;
    case "reset":
      return "reset of the environment";
    case "rollback":
      return actor.type === "user" ? `rolled back by ${actor.name}` : "rolled back automatically";
    default:
      return `started by ${actor.name}`;
  }
}

const CAUSES: Record<string, string> = {
  step_failed: "A step failed",
  timed_out: "Timed out",
  killed: "Killed",
  lost: "Outcome unknown",
  not_runnable: "Could not start",
  commit_not_found: "Commit not found",
  approval_rejected: "Approval rejected",
  approval_expired: "Approval expired",
  soak_rejected: "Rejected during the soak",
  requested: "Cancelled on request",
  session_ended: "Session ended",
  drain_overridden: "Drain overridden",
  environment_deleted: "Environment deleted",
};

export function formatCause(cause: string): string {
  return CAUSES[cause] ?? cause.replaceAll("_", " ");
}

const ATTEMPTS: Record<DeploymentStep["attempts"][number]["status"], string> = {
  running: "running",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
  interrupted: "interrupted by a server restart",
  unknown: "outcome unknown",
  never_started: "never started",
};

export function formatAttempt(attempt: DeploymentStep["attempts"][number]): string {
  const code =
    attempt.exitCode != null && attempt.exitCode !== 0 ? ` with exit code ${attempt.exitCode}` : "";
  return `${ATTEMPTS[attempt.status]}${code}`;
}

export function isFinished(status: Deployment["status"]): boolean {
  return ["succeeded", "failed", "cancelled", "superseded"].includes(status);
}

/** Seconds from start to finish, or until now; null before the start. */
export function elapsedSeconds(it: { startedAt?: string | null; finishedAt?: string | null }, now: number) {
  if (!it.startedAt) return null;
  const end = it.finishedAt ? Date.parse(it.finishedAt) : now;
  return Math.max(0, (end - Date.parse(it.startedAt)) / 1000);
}

/** Pauses shorter than this are scheduling, not waiting. */
const WAITING_S_MIN = 10;

/** Seconds in which at least one step was running; the rest is waiting for approvals, windows, soaks or runners. */
export function workingSeconds(deployment: Pick<Deployment, "stages">, now: number): number {
  const attempts = deployment.stages.flatMap(stage => (stage.steps ?? []).flatMap(step => step.attempts));
  const spans = attempts.map(it => ({
    from: Date.parse(it.startedAt),
    to: it.finishedAt ? Date.parse(it.finishedAt) : now,
  }));
  let seconds = 0;
  let until = 0;
  for (const { from, to } of spans.sort((a, b) => a.from - b.from)) {
    seconds += Math.max(0, to - Math.max(from, until)) / 1000;
    until = Math.max(until, to);
  }
  return seconds;
}

/** "12 min 20 s", or "20 s (+12 min waiting)". */
export function formatTook(seconds: number, working: number): string {
  const waiting = seconds - working;
  if (working === 0 || waiting < WAITING_S_MIN) return formatDuration(seconds);
  return `${formatDuration(working)} (+${formatRoughDuration(waiting)} waiting)`;
}

/** Whether a step waits for a user to resolve its unknown outcome. */
export function hasUnknownOutcome(step: DeploymentStep): boolean {
  return step.status === "waiting" && step.type !== "approval" && step.type !== "soak";
}

export type StageStep = { stage: DeploymentStage; step: DeploymentStep };

export function listStageSteps(deployment: Deployment): StageStep[] {
  return deployment.stages.flatMap(stage => (stage.steps ?? []).map(step => ({ stage, step })));
}

/** The step to show first: failed, waiting for a person, running, or the last that ran. */
export function findInitialStep(deployment: Deployment): StageStep | undefined {
  const all = listStageSteps(deployment);
  return (
    all.findLast(({ step }) => step.status === "failed") ??
    all.find(({ step }) => hasUnknownOutcome(step)) ??
    all.findLast(({ step }) => step.status === "running") ??
    all.find(({ step }) => step.status === "waiting") ??
    all.findLast(({ step }) => step.attempts.length > 0) ??
    all[0]
  );
}
