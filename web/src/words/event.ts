/** Events as sentences: who did what. */
import type { Event } from "@/api/types";

const SAID: Record<string, string> = {
  session_claimed: "claimed",
  session_extended: "extended the hold of",
  session_released: "released",
  session_overridden: "took over",
  session_expired: "hold ended by time:",
  session_expiring: "hold ends soon:",
  session_handed_over: "handed over",
  ticket_queued: "waits in line for",
  ticket_granted: "got their turn:",
  ticket_cancelled: "left the line of",
  ticket_expired: "waited too long for",
  environment_drained: "handing over is done:",
  environment_reset: "was reset:",
  drain_overridden: "did not wait for the former work in",
  deployment_cancelling: "is stopping",
  deployment_superseded: "was replaced:",
  deployment_rolled_back: "rolled back",
  pipeline_stopped: "paused new deployments of",
  pipeline_resumed: "resumed",
  login_succeeded: "signed in",
  login_failed: "could not sign in",
  login_ended: "signed out",
  access_denied: "was refused",
  approval_requested: "asks for approval:",
  approval_lapsed: "approval is no longer needed:",
  approval_voted: "answered",
  secret_read: "used the secret",
  bypass_used: "passed the gates with",
};

/** "claimed", "created the token", "deployment succeeded:". */
export function said(kind: string): string {
  const known = SAID[kind];
  if (known) return known;
  const words = kind.split("_");
  const done = words.pop() ?? "";
  const noun = words.join(" ");
  if (["created", "updated", "deleted", "revoked", "added", "removed", "rotated"].includes(done)) {
    return `${done} the ${noun}`;
  }
  return `${noun} ${done}:`;
}

/** What it was about: the names, the most telling one first. */
export function about(event: Event): string {
  const order = [
    "environment",
    "secret",
    "token",
    "user",
    "member",
    "webhook",
    "repository",
    "pipeline",
    "deployment",
  ];
  const rank = (type: string) => (order.indexOf(type) + order.length + 1) % (order.length + 1);
  const named = event.subjects.filter(each => each.name);
  return named
    .sort((a, b) => rank(a.type) - rank(b.type))
    .map(each => each.name)
    .join(", ");
}
