// Reads and follows the log of a step.

import { setTimeout as delay } from "node:timers/promises";

import { type EventSourceMessage, EventSourceParserStream } from "eventsource-parser/stream";

import { BerthError } from "./errors.js";
import { backoffMs, EVENT_STREAM, poll, pollParams, unwrap } from "./http.js";
import type { ApiClient, Deployment, DeploymentStep } from "./types.js";

const LOG = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/steps/{stepId}/logs";
/** The server sends something every 15 seconds; a stream that is silent for longer is dead. */
const IDLE_TIMEOUT_MS = 60_000;

export interface LogOptions {
  /** Id of the step in the definition, or `stp_…`. Default: the failed step, otherwise the last one that started. */
  step?: string;
  /** Needed if several stages run the step. */
  stage?: string;
  /** Default: the latest attempt. */
  attempt?: number;
  /** Only the last lines. */
  tail?: number;
  /** Continue until the log is complete. */
  follow?: boolean;
  /** Default: the last deployment of the session. */
  deploymentId?: string;
}

interface DeploymentPath {
  orgId: string;
  deploymentId: string;
}

/** Yields the lines of a log, without line endings. */
export async function* readLog(
  api: ApiClient,
  deployment: DeploymentPath,
  options: LogOptions,
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  const { follow, stage, attempt, tail } = options;
  const stepId = options.step ?? (await chooseStep(api, deployment, follow ?? false, signal));
  const path = { ...deployment, stepId };
  const query = { ...(stage && { stage }), ...(attempt && { attempt }) };
  if (follow) {
    yield* followLog(api, path, query, signal);
    return;
  }
  let fromLine: number | undefined;
  do {
    const range = fromLine ? { fromLine } : { ...(tail && { tail }) };
    const params = { path, query: { ...query, ...range } };
    const { data } = await unwrap(api.GET(LOG, { params, signal }));
    for (const { text } of data.entries) yield text;
    fromLine = data.nextLine;
  } while (fromLine);
}

/** Returns the failed step, otherwise the last one that started. With `waits`, waits until a step has started. */
async function chooseStep(
  api: ApiClient,
  path: DeploymentPath,
  waits: boolean,
  signal: AbortSignal,
): Promise<string> {
  const deployment = await poll(
    (etag) =>
      api.GET("/api/v1/organizations/{orgId}/deployments/{deploymentId}", {
        params: { path, ...pollParams(etag) },
        signal,
      }),
    (seen) => !waits || seen.finishedAt !== null || findStep(seen) !== undefined,
    () => {},
  );
  const step = findStep(deployment);
  if (!step) throw new BerthError(`no step of deployment ${path.deploymentId} has started`);
  return step.id;
}

function findStep(deployment: Deployment): DeploymentStep | undefined {
  const started = deployment.stages.flatMap((stage) => stage.steps ?? []).filter((step) => step.startedAt !== null);
  return started.find((step) => step.status === "failed") ?? started.at(-1);
}

/** Follows the event stream of a log, and reconnects where it was interrupted. */
async function* followLog(
  api: ApiClient,
  path: DeploymentPath & { stepId: string },
  query: { stage?: string; attempt?: number },
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  let [lastId, rest] = ["0", ""];
  for (let attempt = 0; ; attempt++) {
    const header = { "Last-Event-ID": Number(lastId) };
    const params = { path, query, header };
    const call = api.GET(LOG, { params, headers: { Accept: EVENT_STREAM }, parseAs: "stream", signal });
    const body: ReadableStream<Uint8Array> | null = await unwrap(call);
    try {
      for await (const { id, event, data } of readEvents(body)) {
        [attempt, lastId] = [0, id ?? lastId];
        if (event === "end") {
          if (rest) yield rest;
          return;
        }
        if (event !== "lines") continue;
        const lines = (rest + (JSON.parse(data) as { text: string }).text).split("\n");
        rest = lines.pop() ?? "";
        yield* lines;
      }
    } catch (error) {
      if (error instanceof SyntaxError) throw error;
      // Reconnect. The request fails if the server stays unreachable.
      signal.throwIfAborted();
    }
    await delay(backoffMs(attempt));
  }
}

/** Parses server-sent events. Fails if the stream is silent for too long. */
async function* readEvents(body: ReadableStream<Uint8Array> | null): AsyncGenerator<EventSourceMessage> {
  if (!body) return;
  const silent = new AbortController();
  const timer = setTimeout(() => silent.abort(new Error("the stream is silent")), IDLE_TIMEOUT_MS);
  const restartTimer = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      timer.refresh();
      controller.enqueue(chunk);
    },
  });
  try {
    const bytes = body.pipeThrough(restartTimer, { signal: silent.signal });
    const text = bytes.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>);
    yield* text.pipeThrough(new EventSourceParserStream());
  } finally {
    clearTimeout(timer);
  }
}
