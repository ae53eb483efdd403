/** Endpoints of connections to forges and of forge accounts, typed by hand. */
import type { Client } from "openapi-fetch";
import { api } from "./client";

export type ForgeName = "github" | "gitlab" | "gitea" | "bitbucket";

/** The connection of a repository to its forge. */
export type RepositoryConnection = {
  forge: ForgeName;
  hookUrl: string;
  /** When the first delivery with a valid signature arrived. */
  verifiedAt: string | null;
  /** Why the webhook could not be created on the forge. */
  error: string | null;
  /** How to create the webhook on the forge; empty if Berth created it. */
  instructions: string[];
  /** Only in the response that creates it. */
  secret?: string | null;
};

/** Whether the forge accepted the request for a test delivery. */
export type ConnectionTest = { isRequested: boolean; detail: string | null };

export type HookDelivery = { id: string; kind: string; outcome: string; receivedAt: string };

export type ForgeAccount = { host: string; accountId: string; name: string; linkedAt: string };

/** A one-time code, and the comment that links the account of its author. */
export type ForgeAccountCode = { code: string | null; comment: string | null; expiresAt: string };

type Ok<Body> = { 200: { headers: object; content: { "application/json": Body } } };
type OfRepository = { path: { orgId: string; repositoryId: string } };
type OfMe = { path: { orgId: string } };
type Operation<Parameters, Body> = { parameters: Parameters; responses: Ok<{ data: Body }> };
type OperationWith<Parameters, Sent, Body> = Operation<Parameters, Body> & {
  requestBody: { content: { "application/json": Sent } };
};

type ForgePaths = {
  "/api/v1/organizations/{orgId}/repositories/{repositoryId}/connection": {
    get: Operation<OfRepository, RepositoryConnection>;
    post: OperationWith<OfRepository, { forge?: ForgeName }, RepositoryConnection>;
    delete: Operation<OfRepository, RepositoryConnection>;
  };
  "/api/v1/organizations/{orgId}/repositories/{repositoryId}/connection/test": {
    post: Operation<OfRepository, ConnectionTest>;
  };
  "/api/v1/organizations/{orgId}/repositories/{repositoryId}/deliveries": {
    get: Operation<OfRepository & { query?: { limit?: number } }, HookDelivery[]>;
  };
  "/api/v1/organizations/{orgId}/repositories/{repositoryId}/pull-requests/{number}/approve": {
    post: OperationWith<
      { path: { orgId: string; repositoryId: string; number: number } },
      { commit: string },
      unknown
    >;
  };
  "/api/v1/organizations/{orgId}/me/forge-accounts": {
    get: Operation<OfMe, ForgeAccount[]>;
    post: Operation<OfMe, ForgeAccountCode>;
  };
  "/api/v1/organizations/{orgId}/me/forge-accounts/{host}/{accountId}": {
    delete: Operation<{ path: { orgId: string; host: string; accountId: string } }, ForgeAccount>;
  };
};

export const forgeApi = api as unknown as Client<ForgePaths>;
