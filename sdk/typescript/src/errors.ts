// Errors that this package throws. Each is a BerthError.

import type { Deployment, Holder, Problem, SessionRecord, Ticket } from "./types.js";

export class BerthError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server could not be reached, or its response was lost, for longer than `retryForMs`. */
export class ConnectionFailed extends BerthError {}

/** The server refused a request. `code` is stable; see docs/errors.md for all codes. */
export class ApiError extends BerthError {
  readonly status: number;
  readonly code: string;
  readonly requestId: string | undefined;
  readonly problem: Partial<Problem>;

  constructor(status: number, problem: Partial<Problem>) {
    super(problem.detail ?? `the server returned HTTP ${status}; is it a Berth server?`);
    this.status = status;
    this.code = problem.code ?? "";
    this.requestId = problem.requestId;
    this.problem = problem;
  }
}

/** The environment is held, and the claim did not ask to queue. */
export class EnvironmentLocked extends ApiError {
  /** Who holds the environment. */
  get holder(): Holder | undefined {
    return this.problem.holder;
  }
  /** Why it is held. */
  get reason(): string | null {
    return this.problem.context ?? null;
  }
  get since(): Date | null {
    return toDate(this.problem.since);
  }
  /** When the session of the holder expires; null if it does not. */
  get until(): Date | null {
    return toDate(this.problem.expiresAt);
  }
  /** Whom to ask about the session. */
  get contact(): string | null {
    return this.problem.contact ?? null;
  }
  get queueLength(): number {
    return this.problem.queueLength ?? 0;
  }
  /** Whether the holder is the account of this token. */
  get isOwn(): boolean {
    return this.problem.self ?? false;
  }
}

/** The queue ticket ended without a session: `queueTimeout` has passed, or it was cancelled. */
export class QueueEnded extends BerthError {
  readonly ticket: Ticket;

  constructor(ticket: Ticket) {
    const cause = ticket.cause ? `: ${ticket.cause}` : "";
    super(
      ticket.status === "expired"
        ? `timed out waiting in the queue for ${ticket.envName}; wait longer with queueTimeout`
        : `the queue ticket for ${ticket.envName} was cancelled${cause}`,
    );
    this.ticket = ticket;
  }
}

/** The session ended while it was in use. */
export class SessionEnded extends BerthError {
  /** The ended session, if the server reported it. */
  readonly session: SessionRecord | undefined;

  constructor(message: string, session?: SessionRecord) {
    super(message);
    this.session = session;
  }

  static of(session: SessionRecord): SessionEnded {
    if (session.status === "overridden") {
      const by = session.overriddenBy?.name ?? null;
      return new SessionOverridden(session.envName, by, session.overrideReason, session);
    }
    const by = session.endedBy ? ` by ${session.endedBy.name}` : "";
    const reason = session.endReason ?? session.status;
    return new SessionEnded(`the session in ${session.envName} has ended: ${reason}${by}`, session);
  }
}

/** Another member took over the environment. */
export class SessionOverridden extends SessionEnded {
  /** Name of the member who took over. */
  readonly by: string | null;
  readonly reason: string | null;

  constructor(environment: string, by: string | null, reason: string | null, session?: SessionRecord) {
    const who = by ?? "another member";
    super(`${who} took over ${environment}${reason ? `: ${reason}` : ""}`, session);
    this.by = by;
    this.reason = reason;
  }
}

/** The process received SIGINT or SIGTERM. */
export class Interrupted extends SessionEnded {
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`received ${signal}`);
    this.signal = signal;
  }
}

/** The deployment failed, or was cancelled or superseded. */
export class DeploymentFailed extends BerthError {
  readonly deployment: Deployment;

  constructor(deployment: Deployment) {
    const { deploymentId, status, cause, detail } = deployment;
    const why = [cause, detail].filter(Boolean).join(": ");
    super(`deployment ${deploymentId} ${status}${why ? ` (${why})` : ""}`);
    this.deployment = deployment;
  }
}

/** Converts an error response. `environment` is the environment that the request was for, if there is one. */
export function toApiError(status: number, body: unknown, environment = ""): BerthError {
  const problem: Partial<Problem> = typeof body === "object" && body !== null ? body : {};
  if (problem.code === "environment_locked") {
    return new EnvironmentLocked(status, problem);
  }
  if (problem.code === "session_not_active") {
    return problem.sessionStatus === "overridden"
      ? new SessionOverridden(environment, problem.overriddenBy?.name ?? null, problem.overrideReason ?? null)
      : new SessionEnded(problem.detail ?? "the session has ended");
  }
  return new ApiError(status, problem);
}

function toDate(time: string | null | undefined): Date | null {
  return time ? new Date(time) : null;
}
