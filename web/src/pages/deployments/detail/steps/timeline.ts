/** Position of each step on a time axis without the time in which nothing ran. */
import type { DeploymentStage, DeploymentStep } from "@/api/types";

type Span = { from: number; to: number };

/** A bar, as fractions of the axis. */
export type TimelineBar = { start: number; width: number };

/** Shorter waits are scheduling. */
const WAITING_MS_MIN = 10_000;

/** Milliseconds in which attempts ran; later pauses are left out. */
export class WorkingTime {
  /** Merged spans, in order, each with the working time before it. */
  readonly #spans: (Span & { before: number })[] = [];
  readonly total: number;

  constructor(stages: DeploymentStage[], now: number) {
    const spans = stages
      .flatMap(stage => (stage.steps ?? []).flatMap(step => attemptSpans(step, now)))
      .sort((a, b) => a.from - b.from);
    let before = 0;
    for (const span of spans) {
      const last = this.#spans.at(-1);
      if (last && span.from <= last.to) {
        before += Math.max(0, span.to - last.to);
        last.to = Math.max(last.to, span.to);
      } else {
        this.#spans.push({ ...span, before });
        before += span.to - span.from;
      }
    }
    this.total = before;
  }

  /** Working time from the start of the deployment to this moment. */
  #at(moment: number): number {
    const span = this.#spans.findLast(each => each.from <= moment);
    return span ? span.before + Math.min(moment, span.to) - span.from : 0;
  }

  /** The bars of a step's attempts. */
  bars(step: DeploymentStep, now: number): TimelineBar[] {
    if (this.total <= 0) return [];
    return attemptSpans(step, now).map(({ from, to }) => {
      const start = this.#at(from) / this.total;
      return { start, width: this.#at(to) / this.total - start };
    });
  }
}

function attemptSpans(step: DeploymentStep, now: number): Span[] {
  return step.attempts.map(each => ({
    from: Date.parse(each.startedAt),
    to: each.finishedAt ? Date.parse(each.finishedAt) : now,
  }));
}

/** Seconds in which attempts of the step ran; null if none started. */
export function runningSeconds(step: DeploymentStep, now: number): number | null {
  const spans = attemptSpans(step, now);
  if (spans.length === 0) return null;
  return spans.reduce((sum, { from, to }) => sum + Math.max(0, to - from), 0) / 1000;
}

/** Seconds in which a step waited for an approval, a soak, a retry or a person; null if it did not. */
export function waitingSeconds(step: DeploymentStep, now: number): number | null {
  if (!step.startedAt || step.status === "skipped") return null;
  const end = step.finishedAt ? Date.parse(step.finishedAt) : now;
  const waited = (end - Date.parse(step.startedAt)) / 1000 - (runningSeconds(step, now) ?? 0);
  return waited * 1000 < WAITING_MS_MIN ? null : waited;
}

/** Seconds between the end of the previous stage and the first attempt of this one; null if it did not wait. */
export function secondsBeforeStage(
  stage: DeploymentStage,
  previous: DeploymentStage | undefined,
  now: number,
): number | null {
  if (!previous?.finishedAt || stage.status === "skipped" || stage.status === "cancelled") return null;
  const starts = (stage.steps ?? []).flatMap(step => step.attempts.map(each => Date.parse(each.startedAt)));
  if (starts.length === 0 && stage.finishedAt) return null;
  const first = starts.length > 0 ? Math.min(...starts) : now;
  const waited = first - Date.parse(previous.finishedAt);
  return waited < WAITING_MS_MIN ? null : waited / 1000;
}
