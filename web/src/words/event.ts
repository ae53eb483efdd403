/** Events as sentences: what happened, to what, and the word that was given with it. */
import type { Event } from "@/api/types";
import { shortCommit } from "./commit";

/** Names of pipelines by id; an event knows only the id. */
export type Names = ReadonlyMap<string, string>;

class Told {
  constructor(
    private event: Event,
    private names: Names,
  ) {}

  text(name: string): string | undefined {
    const value = (this.event.data as Record<string, unknown>)[name];
    return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
  }

  subject(type: string) {
    return this.event.subjects.find(each => each.type === type);
  }

  pipeline(): string {
    const subject = this.subject("pipeline");
    return subject ? (this.names.get(subject.id) ?? subject.name ?? "a pipeline") : "";
  }

  /** "qa-1 of Checkout", "Checkout → production", "Checkout". */
  place(): string {
    const environment = this.subject("environment")?.name;
    if (environment) return [environment, this.pipeline()].filter(Boolean).join(" of ");
    return [this.pipeline(), this.text("stage")].filter(Boolean).join(" → ");
  }

  /** "#4 of v1.2 into Checkout". */
  deployment(): string {
    const number = this.text("number");
    const commit = this.text("commitId");
    const what = [number && `#${number}`, commit && shortCommit(commit)].filter(Boolean).join(", ");
    return what ? `${this.place()} (${what})` : this.place();
  }

  invited(): string {
    return this.subject("invitation")?.name ?? "a person";
  }

  why(...names: string[]): string {
    const said = names.map(name => this.text(name)).find(Boolean);
    return said ? `: “${said}”` : "";
  }
}

type Sentence = (told: Told, actor: string) => string;

const SENTENCES: Record<string, Sentence> = {
  session_claimed: (told, actor) =>
    `${told.text("holder") ?? actor} claimed ${told.place()}${told.why("context")}`,
  session_extended: (told, actor) => `${actor} extended the hold of ${told.place()}`,
  session_released: (told, actor) => `${actor} released ${told.place()}`,
  session_overridden: (told, actor) =>
    `${actor} took ${told.place()} over from ${told.text("holder") ?? "somebody"}${told.why("reason")}`,
  session_expired: told => `The hold of ${told.place()} ended, its time was over`,
  session_expiring: told => `The hold of ${told.place()} ends soon`,
  session_handed_over: (told, actor) => `${actor} handed ${told.place()} over`,
  ticket_queued: (told, actor) => `${told.text("holder") ?? actor} waits in line for ${told.place()}`,
  ticket_granted: (told, actor) =>
    `${told.text("holder") ?? actor} was next in line and has ${told.place()} now`,
  ticket_cancelled: (told, actor) => `${told.text("holder") ?? actor} left the line for ${told.place()}`,
  ticket_expired: (told, actor) => `${told.text("holder") ?? actor} waited too long for ${told.place()}`,
  environment_drained: told => `${told.place()} is handed over`,
  environment_reset: told => `${told.place()} was reset`,
  environment_restored: told => `${told.place()} comes from a backup, what is in it is not known`,
  environment_fence_refused: told =>
    `Alarm: a runner knows a later holder of ${told.place()} than this server, what is in it is not known`,
  epoch_raised: told =>
    `Alarm: the runner ${told.subject("runner")?.name ?? ""} knows of fences this database has lost; it may be an older copy`,
  epoch_refused: told =>
    `Alarm: the runner ${told.subject("runner")?.name ?? ""} was refused, it tells of fences that cannot have been given`,
  deployment_queued: (told, actor) => `${actor} started a deployment: ${told.deployment()}`,
  deployment_started: told => `Deployment began: ${told.deployment()}`,
  deployment_succeeded: told => `Deployment succeeded: ${told.deployment()}`,
  deployment_failed: told => `Deployment failed: ${told.deployment()}${told.why("detail")}`,
  deployment_cancelled: told => `Deployment was cancelled: ${told.deployment()}${told.why("reason")}`,
  deployment_superseded: told => `Deployment was replaced: ${told.deployment()}`,
  deployment_rolled_back: (told, actor) => `${actor} rolled ${told.place()} back${told.why("reason")}`,
  pipeline_stopped: (told, actor) =>
    `${actor} paused new deployments of ${told.pipeline()}${told.why("reason")}`,
  pipeline_resumed: (told, actor) => `${actor} resumed ${told.pipeline()}`,
  approval_requested: told => `${told.place()} waits for approval${told.why("message")}`,
  approval_voted: (told, actor) => `${actor} answered for ${told.place()}${told.why("comment", "reason")}`,
  approval_approved: told => `${told.place()} is approved`,
  approval_rejected: (told, actor) => `${actor} rejected ${told.place()}${told.why("reason", "comment")}`,
  approval_expired: told => `Nobody answered in time for ${told.place()}`,
  approval_lapsed: told => `${told.place()} no longer needs approval`,
  member_invited: (told, actor) => `${actor} invited ${told.invited()}`,
  invitation_revoked: (told, actor) => `${actor} revoked the invitation of ${told.invited()}`,
  login_succeeded: (_, actor) => `${actor} logged in`,
  login_failed: (_, actor) => `${actor} could not log in`,
  login_ended: (_, actor) => `${actor} logged out`,
  password_changed: (_, actor) => `${actor} changed the password`,
  password_reset_requested: told =>
    `The operator made a link to reset the password of ${told.subject("user")?.name ?? "a user"}`,
  access_denied: (told, actor) => `${actor} was refused${told.why("action", "permission")}`,
  events_removed: told => `Events up to no. ${told.text("through")} were removed, because they were old`,
  bypass_used: (told, actor) => `${actor} passed the gates of ${told.place()}${told.why("reason")}`,
};

/** Things that are made, changed and removed under a name of their own. */
const NAMED = ["token", "secret", "webhook", "repository", "organization", "user", "pipeline"];
const DONE = ["created", "updated", "deleted", "revoked", "added", "removed", "rotated", "read", "synced"];

export function sentence(event: Event, names: Names): string {
  const told = new Told(event, names);
  const actor = event.actor.name;
  const known = SENTENCES[event.kind];
  if (known) return known(told, actor);
  const words = event.kind.split("_");
  const done = words.at(-1) ?? "";
  const noun = words.slice(0, -1).join(" ");
  const name = NAMED.map(type => told.subject(type)?.name).find(Boolean);
  if (DONE.includes(done) && noun) return `${actor} ${done} the ${noun}${name ? ` ${name}` : ""}`;
  const step = told.subject("step")?.name;
  const start = noun.charAt(0).toUpperCase() + noun.slice(1);
  return `${start}${step ? ` ${step}` : ""} ${done}: ${told.place()}`;
}
