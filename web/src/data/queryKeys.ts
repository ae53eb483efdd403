/** Keys of the query cache: organization, then resource, so that an event can invalidate all queries of a resource. */
export const RESOURCES = [
  "access",
  "analyses",
  "approvals",
  "chats",
  "deployed",
  "deliveries",
  "deployments",
  "environments",
  "events",
  "grants",
  "insights",
  "invitations",
  "members",
  "notifications",
  "organization",
  "pipelines",
  "pull-requests",
  "registries",
  "repositories",
  "runners",
  "secrets",
  "teams",
  "tokens",
  "webhooks",
] as const;

export type Resource = (typeof RESOURCES)[number];

export function resourceKey(org: string, noun: Resource, ...rest: unknown[]) {
  return ["org", org, noun, ...rest] as const;
}

export const ME_KEY = ["me"] as const;

/** Resources whose queries an event of this kind invalidates, besides the audit log itself. */
export function resourcesInvalidatedBy(kind: string): Resource[] {
  const [subject = ""] = kind.split("_");
  return INVALIDATED_BY[subject] ?? [];
}

/** Whether an event of this kind can change what the current user may do. */
export function changesAccess(kind: string): boolean {
  return resourcesInvalidatedBy(kind).includes("access");
}

const INVALIDATED_BY: Record<string, Resource[]> = {
  organization: ["organization"],
  agents: ["organization", "environments", "deployed"],
  member: ["members", "invitations", "organization", "approvals", "teams", "grants", "access"],
  team: ["teams", "grants", "access", "approvals"],
  grant: ["grants", "access", "approvals"],
  invitation: ["invitations"],
  second: ["members"],
  token: ["tokens"],
  account: ["members"],
  pipeline: ["pipelines", "deployed", "environments"],
  repository: ["repositories", "pipelines", "deployed", "environments", "pull-requests"],
  session: ["environments", "deployed", "pull-requests"],
  ticket: ["environments", "deployed", "pull-requests"],
  environment: ["environments", "deployed", "pull-requests"],
  deployment: ["deployments", "deployed", "environments", "insights", "pipelines", "pull-requests"],
  pull: ["pull-requests"],
  stage: ["deployments", "deployed", "pipelines"],
  step: ["deployments"],
  promotion: ["deployments", "deployed", "pipelines"],
  approval: ["approvals", "deployments"],
  bypass: ["deployments"],
  drain: ["environments", "deployments"],
  finished: ["deployments"],
  rollback: ["deployments"],
  soak: ["deployments"],
  secret: ["secrets"],
  webhook: ["webhooks", "deliveries"],
  registry: ["registries", "pipelines"],
  analysis: ["analyses"],
  fix: ["analyses"],
  runner: ["runners"],
  epoch: ["environments"],
  image: ["deployments"],
  events: ["events"],
  notification: ["notifications"],
  chat: ["chats"],
  slack: ["chats"],
};
