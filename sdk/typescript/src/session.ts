// A session in an environment.

import { setTimeout as delay } from "node:timers/promises";

import { ApiError, DeploymentFailed, SessionEnded } from "./errors.js";
import { renewLease } from "./heartbeat.js";
import { poll, pollParams, unwrap } from "./http.js";
import { onInterrupt } from "./interrupts.js";
import { type LogOptions, readLog } from "./logs.js";
import type { ApiClient, Deployment, EnvironmentPath, SessionRecord } from "./types.js";

const SESSION =
  "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions/{sessionId}";
/** Pause after the session could not be read for a while. */
const RETRY_PAUSE_MS = 1_000;
const ENDED: ReadonlySet<Deployment["status"]> = new Set(["succeeded", "failed", "cancelled", "superseded"]);

export interface WaitOptions {
  /** Default: the last deployment that this session started. */
  deploymentId?: string;
  /** Called with every change of the deployment. */
  onProgress?: (deployment: Deployment) => void;
}

/** Exclusive use of an environment. */
export class Session implements AsyncDisposable {
  readonly id: string;
  /** Name of the environment. */
  readonly environment: string;
  /** The fencing token. Targets use it to refuse work of earlier sessions. */
  readonly fence: number;
  /** The session as it was last read. */
  record: SessionRecord;
  /** The last deployment that this session started. */
  deploymentId: string | undefined;

  readonly #api: ApiClient;
  readonly #path: EnvironmentPath & { sessionId: string };
  readonly #aborted = new AbortController();
  readonly #stopWatch = new AbortController();
  readonly #removeInterruptHandler: () => void = () => {};
  #released: Promise<SessionRecord> | undefined;

  constructor(api: ApiClient, path: EnvironmentPath, record: SessionRecord, handleSignals: boolean) {
    this.id = record.sessionId;
    this.environment = record.envName;
    this.fence = record.fence;
    this.record = record;
    this.deploymentId = record.deploymentId ?? record.deploymentHistory[0]?.deploymentId;
    this.#api = api;
    this.#path = { ...path, sessionId: record.sessionId };
    if (handleSignals) {
      this.#removeInterruptHandler = onInterrupt((error) => {
        this.#aborted.abort(error);
        return this.release();
      });
    }
    void this.#watch();
    if (record.leaseSeconds) void this.#renewLease(record.leaseSeconds);
  }

  /** Aborted when the session ends early. Its `reason` is a SessionEnded, for a takeover a SessionOverridden. */
  get signal(): AbortSignal {
    return this.#aborted.signal;
  }

  /** Deploys a commit. Returns at once; `wait` waits for the result. */
  async deploy(commit: string, options: { why?: string } = {}): Promise<Deployment> {
    const { data } = await unwrap(
      this.#api.POST(`${SESSION}/deploy`, {
        params: { path: this.#path },
        body: { commitId: commit, context: options.why ?? null },
        signal: this.signal,
      }),
      this.environment,
    );
    this.deploymentId = data.deploymentId;
    return data;
  }

  /** Waits until the deployment has succeeded. Throws DeploymentFailed if it ends in another way. */
  async wait({ deploymentId = this.deploymentId, onProgress }: WaitOptions = {}): Promise<Deployment> {
    const { orgId } = this.#path;
    const path = { orgId, deploymentId: this.#require(deploymentId) };
    const ended = await poll(
      (etag) =>
        this.#api.GET("/api/v1/organizations/{orgId}/deployments/{deploymentId}", {
          params: { path, ...pollParams(etag) },
          signal: this.signal,
        }),
      ({ status }) => ENDED.has(status),
      (deployment) => onProgress?.(deployment),
    );
    if (ended.status === "succeeded") return ended;
    // A takeover cancels the deployment; report the takeover.
    this.#update(await this.#load());
    this.signal.throwIfAborted();
    throw new DeploymentFailed(ended);
  }

  /** Yields the lines of a step's log. Without `step`, the failed step, otherwise the last one that started. */
  logs(options: LogOptions = {}): AsyncGenerator<string, void, undefined> {
    const path = { orgId: this.#path.orgId, deploymentId: this.#require(options.deploymentId ?? this.deploymentId) };
    return readLog(this.#api, path, options, this.signal);
  }

  /** Postpones the expiry, by default to the `ttl` of the environment from now. */
  async extend(ttl?: number): Promise<SessionRecord> {
    const { data } = await unwrap(
      this.#api.POST(`${SESSION}/extend`, {
        params: { path: this.#path },
        body: { ttlSeconds: ttl ?? null },
        signal: this.signal,
      }),
      this.environment,
    );
    this.record = data;
    return data;
  }

  /** Releases the environment. A second call returns the result of the first. */
  release(): Promise<SessionRecord> {
    this.#stopWatch.abort();
    this.#released ??= this.#release().finally(this.#removeInterruptHandler);
    return this.#released;
  }

  async #release(): Promise<SessionRecord> {
    const call = this.#api.DELETE(SESSION, { params: { path: this.#path } });
    this.record = (await unwrap(call)).data;
    return this.record;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch((error: unknown) => {
      // The session is over anyway; do not hide why.
      if (!this.signal.aborted) throw error;
    });
  }

  /** Rejects with the reason when the session ends early; otherwise stays pending. */
  whenAborted(): Promise<never> {
    return new Promise((_, reject) => {
      const abort = () => reject(this.signal.reason);
      if (this.signal.aborted) abort();
      else this.signal.addEventListener("abort", abort, { once: true });
    });
  }

  /** Follows the session until it ends or is released here. */
  async #watch(): Promise<void> {
    const load = (etag: string | undefined) => {
      const params = { path: this.#path, ...pollParams(etag) };
      return this.#api.GET(SESSION, { params, signal: this.#stopWatch.signal });
    };
    while (!this.#stopWatch.signal.aborted) {
      try {
        await poll(load, ({ status }) => status !== "active", (record) => this.#update(record));
        return;
      } catch (error) {
        if (this.#stopWatch.signal.aborted) return;
        if (error instanceof ApiError && error.status < 500) {
          this.#aborted.abort(new SessionEnded(`the session cannot be read any more: ${error.message}`));
          return;
        }
        // The server is unreachable: the session stays valid, so keep trying. Requests of the caller report the error.
        await delay(RETRY_PAUSE_MS);
      }
    }
  }

  async #renewLease(leaseSeconds: number): Promise<void> {
    const send = (signal: AbortSignal) =>
      unwrap(this.#api.POST(`${SESSION}/heartbeat`, { params: { path: this.#path }, signal }), this.environment);
    const ended = await renewLease(send, leaseSeconds, this.#stopWatch.signal);
    if (ended) this.#aborted.abort(ended);
  }

  #update(record: SessionRecord): void {
    if (this.#released) return;
    this.record = record;
    if (record.status !== "active") this.#aborted.abort(SessionEnded.of(record));
  }

  async #load(): Promise<SessionRecord> {
    return (await unwrap(this.#api.GET(SESSION, { params: { path: this.#path } }))).data;
  }

  #require(deploymentId: string | undefined): string {
    if (deploymentId) return deploymentId;
    throw new RangeError("this session has not deployed anything: call deploy first, or claim with a commit");
  }
}
