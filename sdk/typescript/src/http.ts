// The HTTP layer: retries with idempotency keys, timeouts, and errors.

import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";

import { ConnectionFailed, toApiError } from "./errors.js";

/** Longest long poll that the server allows. */
export const WAIT_SECONDS = 50;
/** Timeout of one attempt; above the longest long poll. */
const ATTEMPT_TIMEOUT_MS = 90_000;
const BACKOFF_MIN_MS = 200;
const BACKOFF_MAX_MS = 5_000;
const RETRIED_STATUSES = new Set([408, 429, 502, 503, 504]);
export const EVENT_STREAM = "text/event-stream";

/** Result of a call of openapi-fetch. */
export type ApiResult<T> = { data?: T; error?: unknown; response: Response };

/**
 * Returns a `fetch` that repeats requests for up to `retryForMs` if the server is unreachable or overloaded. Every POST has
 * an idempotency key, so that a repeated request has no second effect.
 */
export function createRetryingFetch(retryForMs: number): (request: Request) => Promise<Response> {
  return async (request) => {
    if (request.method === "POST" && !request.headers.has("Idempotency-Key")) {
      request.headers.set("Idempotency-Key", randomUUID());
    }
    const deadline = Date.now() + retryForMs;
    for (let attempt = 0; ; attempt++) {
      const [outcome, retryAfterMs] = await fetchOnce(request);
      const pause = Math.max(backoffMs(attempt), retryAfterMs ?? 0);
      if (retryAfterMs === undefined || Date.now() + pause > deadline) {
        if (outcome instanceof Response) return outcome;
        throw outcome;
      }
      await delay(pause, undefined, { signal: request.signal }).catch(() => request.signal.throwIfAborted());
    }
  };
}

/** Returns a response or the error, and the time to wait before a retry; undefined if a retry is pointless. */
async function fetchOnce(request: Request): Promise<[Response | ConnectionFailed, number | undefined]> {
  const isStream = request.headers.get("Accept") === EVENT_STREAM;
  const timeout = isStream ? [] : [AbortSignal.timeout(ATTEMPT_TIMEOUT_MS)];
  try {
    const signal = AbortSignal.any([request.signal, ...timeout]);
    const response = await fetch(request.clone(), { signal });
    return [response, await retryDelayMs(response)];
  } catch (error) {
    request.signal.throwIfAborted();
    const { origin } = new URL(request.url);
    return [new ConnectionFailed(`cannot reach ${origin}: ${describeCause(error)}`, { cause: error }), 0];
  }
}

async function retryDelayMs(response: Response): Promise<number | undefined> {
  if (RETRIED_STATUSES.has(response.status)) {
    return Number(response.headers.get("Retry-After") ?? 0) * 1000 || 0;
  }
  if (response.status !== 409) return undefined;
  const problem: unknown = await response.clone().json().catch(() => null);
  const isInProgress =
    typeof problem === "object" && problem !== null && "code" in problem && problem.code === "idempotency_in_progress";
  return isInProgress ? 0 : undefined;
}

/** Exponential backoff with jitter. */
export function backoffMs(attempt: number): number {
  return Math.min(BACKOFF_MIN_MS * 2 ** attempt, BACKOFF_MAX_MS) * (0.5 + Math.random() / 2);
}

/** Returns the body of a response, or throws the error that it describes. */
export async function unwrap<T>(call: Promise<ApiResult<T>>, environment?: string): Promise<T> {
  const { data, error, response } = await call;
  if (data === undefined) throw toApiError(response.status, error, environment);
  return data;
}

/**
 * Long-polls a record until `isDone`, and calls `onChange` with every version of it. `load` gets the ETag of the last version.
 */
export async function poll<T>(
  load: (etag: string | undefined) => Promise<ApiResult<{ data: T }>>,
  isDone: (record: T) => boolean,
  onChange: (record: T) => void,
): Promise<T> {
  let etag: string | undefined;
  for (;;) {
    const { data, error, response } = await load(etag);
    if (response.status === 304) continue;
    if (data === undefined) throw toApiError(response.status, error);
    etag = response.headers.get("ETag") ?? undefined;
    onChange(data.data);
    if (isDone(data.data)) return data.data;
  }
}

/** Parameters of a long poll: the first request returns at once, later ones when the record has changed. */
export function pollParams(etag: string | undefined) {
  return etag ? { query: { wait: WAIT_SECONDS }, header: { "If-None-Match": etag } } : { query: {}, header: {} };
}

function describeCause(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(cause instanceof Error)) return String(cause);
  return cause.message || ("code" in cause ? String(cause.code) : cause.name);
}
