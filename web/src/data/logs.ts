/** Step logs: line ranges, search and streaming. */
import { api, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";

export type Log = components["schemas"]["Log"];
export type LogEntry = components["schemas"]["LogEntry"];
export type LogStream = "step" | "after_fence";

/** Identifies a log: an attempt of a step, and its stream. `after_fence` is the output after a takeover. */
export type LogSource = {
  org: string;
  deploymentId: string;
  stepId: string;
  attempt: number;
  stream: LogStream;
};

type LogQuery = {
  fromLine?: number;
  toLine?: number;
  tail?: number;
  q?: string;
  limit?: number;
  offset?: number;
};

function fetchLog(source: LogSource, part: LogQuery): Promise<Log> {
  const { org, deploymentId, stepId, attempt, stream } = source;
  return fetchData(
    api.GET("/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/logs", {
      params: { path: { orgId: org, deploymentId, stepId }, query: { attempt, stream, ...part } },
    }),
  ) as Promise<Log>;
}

export function fetchTail(source: LogSource, lines: number): Promise<Log> {
  return fetchLog(source, { tail: lines });
}

export function fetchLines(source: LogSource, fromLine: number, toLine: number): Promise<Log> {
  return fetchLog(source, { fromLine, toLine });
}

export type LogSearchResult = { entries: LogEntry[]; isComplete: boolean };

/** The server searches a limited part of a log per request; a search stops after this many requests. */
const SEARCH_REQUESTS_MAX = 20;

/** Returns the lines that contain this text, at most `max`. */
export async function searchLog(
  source: LogSource,
  q: string,
  max: number,
  fromLine = 1,
): Promise<LogSearchResult> {
  const entries: LogEntry[] = [];
  let from: LogQuery = { fromLine };
  for (let requests = 0; requests < SEARCH_REQUESTS_MAX; requests++) {
    const found = await fetchLog(source, { q, limit: max - entries.length, ...from });
    entries.push(...found.entries);
    if (found.nextOffset == null && found.nextLine == null) return { entries, isComplete: true };
    if (entries.length >= max) return { entries, isComplete: false };
    from = found.nextOffset != null ? { offset: found.nextOffset } : { fromLine: found.nextLine ?? 1 };
  }
  return { entries, isComplete: false };
}

/** URL of the log as a file, or as a stream from a byte offset. */
export function logUrl(source: LogSource, more: Record<string, string>): string {
  const { org, deploymentId, stepId, attempt, stream } = source;
  const query = new URLSearchParams({ attempt: String(attempt), stream, ...more });
  const path = [org, "deployments", deploymentId, "steps", stepId, "logs"].map(encodeURIComponent).join("/");
  return `/api/v1/organizations/${path}?${query}`;
}
