// The client.

import createClient from "openapi-fetch";

import type { paths } from "./api.gen.js";
import { claimEnvironment, type SessionOptions } from "./claim.js";
import { BerthError } from "./errors.js";
import { createRetryingFetch, unwrap } from "./http.js";
import { Session } from "./session.js";
import type { ApiClient } from "./types.js";
import { VERSION } from "./version.gen.js";

/** How long requests are repeated by default: longer than a restart of the server takes. */
const RETRY_FOR_MS = 45_000;

export interface BerthOptions {
  /** Slug of the organization. Default: BERTH_ORG, or the organization of the token. */
  organization?: string;
  /** How long requests are repeated if the server is unreachable or overloaded. Default: 45 seconds. */
  retryForMs?: number;
}

/** A client of one Berth server. */
export class Berth {
  /** Typed calls of every operation: `berth.api.GET("/api/v1/organizations/{orgId}/pipelines", …)`. */
  readonly api: ApiClient;
  #organization: Promise<string> | undefined;

  /** The defaults are BERTH_SERVER and BERTH_TOKEN. */
  constructor(url = process.env["BERTH_SERVER"], token = process.env["BERTH_TOKEN"], options: BerthOptions = {}) {
    if (!url) throw new BerthError("no server: pass its URL, or set BERTH_SERVER");
    if (!token) throw new BerthError("no API token: pass one, or set BERTH_TOKEN");
    const { retryForMs = RETRY_FOR_MS, organization = process.env["BERTH_ORG"] } = options;
    this.api = createClient<paths, "application/json">({
      baseUrl: url.replace(/\/+$/, ""),
      headers: { Authorization: `Bearer ${token}`, "User-Agent": `berth-sdk-typescript/${VERSION}` },
      fetch: createRetryingFetch(retryForMs),
    });
    if (organization) this.#organization = Promise.resolve(organization);
  }

  /** Returns the slug of the organization, the `orgId` of most paths. */
  organization(): Promise<string> {
    this.#organization ??= this.#loadOrganization().catch((error: unknown) => {
      this.#organization = undefined;
      throw error;
    });
    return this.#organization;
  }

  async #loadOrganization(): Promise<string> {
    const { data } = await unwrap(this.api.GET("/api/v1/organizations"));
    const [first] = data;
    if (!first) throw new BerthError("the token belongs to no organization");
    return first.slug;
  }

  /**
   * Claims an environment, written `pipeline/environment`. Use it with `await using`, or release the session yourself.
   */
  async session(environment: string, options: SessionOptions = {}): Promise<Session> {
    const [pipelineId, envName, ...rest] = environment.split("/");
    if (!pipelineId || !envName || rest.length > 0) {
      throw new BerthError(`"${environment}" is not an environment: write pipeline/environment, such as shop/qa-1`);
    }
    const path = { orgId: await this.organization(), pipelineId, envName };
    const record = await claimEnvironment(this.api, path, options);
    return new Session(this.api, path, record, options.handleSignals ?? true);
  }

  /**
   * Claims an environment, calls `body` with the session, and releases it. If the session ends early, for example because
   * of a takeover, the promise is rejected at once with a SessionEnded, and `session.signal` is aborted with it.
   */
  async withSession<T>(
    environment: string,
    options: SessionOptions,
    body: (session: Session) => Promise<T>,
  ): Promise<T> {
    await using session = await this.session(environment, options);
    const result = await Promise.race([body(session), session.whenAborted()]);
    session.signal.throwIfAborted();
    return result;
  }
}
