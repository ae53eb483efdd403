// Client of Berth: claim shared environments, deploy, and follow deployments.

export type { components, paths } from "./api.gen.js";
export { Berth, type BerthOptions } from "./berth.js";
export type { SessionOptions } from "./claim.js";
export {
  ApiError,
  BerthError,
  ConnectionFailed,
  DeploymentFailed,
  EnvironmentLocked,
  Interrupted,
  QueueEnded,
  SessionEnded,
  SessionOverridden,
} from "./errors.js";
export type { LogOptions } from "./logs.js";
export { Session, type WaitOptions } from "./session.js";
export type { ApiClient, Deployment, DeploymentStep, Holder, Problem, SessionRecord, Ticket } from "./types.js";
export { VERSION } from "./version.gen.js";
