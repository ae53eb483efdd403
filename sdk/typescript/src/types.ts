// Names for the generated types that the session API uses.

import type { Client } from "openapi-fetch";

import type { components, paths } from "./api.gen.js";

/** Typed calls of every operation. Responses are JSON unless a call sets `parseAs`. */
export type ApiClient = Client<paths, "application/json">;

export interface EnvironmentPath {
  orgId: string;
  pipelineId: string;
  envName: string;
}

type Schemas = components["schemas"];

export type Deployment = Schemas["Deployment"];
export type DeploymentStep = Schemas["DeploymentStep"];
export type Holder = Schemas["Holder"];
export type Problem = Schemas["Problem"];
export type SessionRecord = Schemas["Session"];
export type Ticket = Schemas["Ticket"];
