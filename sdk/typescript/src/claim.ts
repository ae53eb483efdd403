// Claims an environment, and waits in its queue.

import { QueueEnded } from "./errors.js";
import { poll, pollParams, unwrap } from "./http.js";
import { onInterrupt } from "./interrupts.js";
import type { ApiClient, EnvironmentPath, SessionRecord, Ticket } from "./types.js";

export interface SessionOptions {
  /** Commit to deploy as soon as the environment is yours. */
  commit?: string;
  /** Reason, visible to all members. */
  why?: string;
  /** Whom to ask about the session; shown next to the holder. */
  contact?: string;
  /** Wait in the queue if the environment is held, instead of throwing EnvironmentLocked. Default: false. */
  queue?: boolean;
  /** How long to stay in the queue, in seconds. Default: one hour. */
  queueTimeout?: number;
  /** Called when the ticket changes, for example its position. */
  onQueue?: (ticket: Ticket) => void;
  /** When the session expires, in seconds. Default: the `ttl` of the environment. */
  ttl?: number;
  /**
   * The session ends if this process sends no heartbeat for this many seconds (15 to 600), for example after a crash.
   * Heartbeats are sent in the background. Default: 60. With null, the session needs no heartbeats.
   */
  lease?: number | null;
  /** Stops waiting in the queue. */
  signal?: AbortSignal;
  /** Release the session on SIGINT and SIGTERM. Default: true. */
  handleSignals?: boolean;
}

const LEASE_SECONDS = 60;

/** Returns the new session. If it is interrupted, it leaves the queue or releases the session. */
export async function claimEnvironment(
  api: ApiClient,
  path: EnvironmentPath,
  options: SessionOptions,
): Promise<SessionRecord> {
  const interrupted = new AbortController();
  const signals = options.signal ? [interrupted.signal, options.signal] : [interrupted.signal];
  const claimed = claim(api, path, options, AbortSignal.any(signals));
  if (options.handleSignals === false) return claimed;
  const removeHandler = onInterrupt((error) => {
    interrupted.abort(error);
    return claimed;
  });
  return claimed.finally(removeHandler);
}

async function claim(
  api: ApiClient,
  path: EnvironmentPath,
  options: SessionOptions,
  signal: AbortSignal,
): Promise<SessionRecord> {
  signal.throwIfAborted();
  const url = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions";
  // Not aborted by the signal: the claim may succeed in the meantime, and has to be undone.
  const { data } = await unwrap<{ data: SessionRecord | Ticket }>(
    api.POST(url, { params: { path }, body: toBody(options) }),
  );
  let ticket: Ticket | undefined;
  let session: SessionRecord | undefined;
  try {
    if ("ticketId" in data) {
      ticket = await waitInQueue(api, path, data, options, signal);
      if (ticket.status !== "granted" || !ticket.sessionId) throw new QueueEnded(ticket);
      const params = { path: { ...path, sessionId: ticket.sessionId } };
      session = (await unwrap(api.GET(`${url}/{sessionId}`, { params }))).data;
    } else {
      session = data;
    }
    signal.throwIfAborted();
    return session;
  } catch (error) {
    await undoClaim(api, path, "ticketId" in data ? data.ticketId : null, session?.sessionId ?? null).catch(
      (failure: unknown) => process.emitWarning(`the claim of ${path.envName} was not undone: ${String(failure)}`),
    );
    throw error;
  }
}

function toBody({ commit, why, contact, queue, queueTimeout, ttl, lease = LEASE_SECONDS }: SessionOptions) {
  return {
    commitId: commit ?? null,
    context: why ?? null,
    contact: contact ?? null,
    queue: queue ?? false,
    waitSeconds: queueTimeout ?? null,
    ttlSeconds: ttl ?? null,
    leaseSeconds: lease,
  };
}

function waitInQueue(
  api: ApiClient,
  path: EnvironmentPath,
  { ticketId }: Ticket,
  { onQueue }: SessionOptions,
  signal: AbortSignal,
): Promise<Ticket> {
  const load = (etag: string | undefined) => {
    const { query, header } = pollParams(etag);
    return api.GET(
      "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/queue/{ticketId}",
      { params: { path: { ...path, ticketId }, query, header }, signal },
    );
  };
  return poll(
    load,
    (ticket) => ticket.status !== "waiting",
    (ticket) => {
      if (ticket.status === "waiting") onQueue?.(ticket);
    },
  );
}

/** Leaves the queue. If the ticket was granted in the meantime, releases its session. */
async function undoClaim(
  api: ApiClient,
  path: EnvironmentPath,
  ticketId: string | null,
  sessionId: string | null,
): Promise<void> {
  let held = sessionId;
  if (ticketId && !held) {
    const params = { path: { ...path, ticketId } };
    const url =
      "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/queue/{ticketId}";
    await api.DELETE(url, { params });
    held = (await unwrap(api.GET(url, { params }))).data.sessionId;
  }
  if (held) {
    await unwrap(
      api.DELETE(
        "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions/{sessionId}",
        { params: { path: { ...path, sessionId: held } } },
      ),
    );
  }
}
