/** Toasts about the user's own sessions and tickets and about the environments of their teams, on every page. */
import { useCallback } from "react";
import type { Event } from "@/api/types";
import { useEventListener } from "@/data/eventStream";
import { useMe, useOrganization } from "@/data/me";
import { isStartedHere } from "@/data/startedDeployments";
import { formatRelativeTime } from "@/format/time";
import { toast } from "@/ui/toast";

const MESSAGES: Record<string, (event: Event, envName: string) => string> = {
  session_overridden: (event, envName) =>
    `${event.actor.name} took over ${envName} from you${formatReason(event)}`,
  session_released: (event, envName) => `${event.actor.name} released your session on ${envName}`,
  session_expiring: (_, envName) =>
    `Your session on ${envName} expires soon. Extend it if you still need it.`,
  session_expired: (_, envName) => `Your session on ${envName} expired`,
  ticket_granted: (_, envName) => `You now hold ${envName}`,
};

/** Toasts for the holder of an environment that another user queues for. */
function formatQueued(event: Event, envName: string): string {
  const name = readText(event, "holder") ?? event.actor.name;
  const takeover = readText(event, "takeover");
  if (!takeover) return `${name} is waiting for ${envName}, which you hold`;
  const at = readText(event, "takeoverAt");
  const when = at ? formatRelativeTime(at, Date.parse(event.occurredAt)) : "after your current deployment";
  return `${name} will take over ${envName} from you ${when}${formatReason(event)}`;
}

function readText(event: Event, name: string): string | undefined {
  const value = (event.data as Record<string, unknown>)[name];
  return typeof value === "string" ? value : undefined;
}

function formatReason(event: Event): string {
  const reason = readText(event, "reason") ?? readText(event, "overrideReason");
  return reason ? `: “${reason}”` : "";
}

/** Returns the toast for a user if the event is about their session and another actor caused it. */
export function formatSessionMessage(event: Event, me: string): string | null {
  if (event.kind === "ticket_queued" && readText(event, "heldById") === me && event.actor.id !== me)
    return formatQueued(event, environmentOf(event));
  const message = MESSAGES[event.kind];
  if (!message || readText(event, "holderId") !== me || event.actor.id === me) return null;
  return message(event, environmentOf(event));
}

/** Returns the toast for a member of the team that owns the environment when a claim by another actor has to wait. */
export function formatOwnerMessage(event: Event, me: string, teams: string[]): string | null {
  const owner = readText(event, "owner");
  if (event.kind !== "ticket_queued" || event.actor.id === me || !owner) return null;
  if (!teams.some(team => owner === `team:${team}`)) return null;
  return `${readText(event, "holder") ?? event.actor.name} is waiting for ${environmentOf(event)}`;
}

/** Returns the toast for a failed deployment that the user has started in this tab. */
export function formatFailure(event: Event): string | null {
  const deployment = event.subjects.find(each => each.type === "deployment")?.id;
  return event.kind === "deployment_failed" && isStartedHere(deployment) ? event.summary : null;
}

function environmentOf(event: Event): string {
  return event.subjects.find(each => each.type === "environment")?.name ?? "an environment";
}

const NO_TEAMS: string[] = [];

/** Shows the toasts. Lazy-loaded. */
export default function SessionToasts() {
  const me = useMe().user.id;
  const teams = useOrganization()?.teams ?? NO_TEAMS;
  const listen = useCallback(
    (event: Event) => {
      const message = formatSessionMessage(event, me);
      if (message) toast[event.kind === "ticket_granted" ? "success" : "warning"](message);
      const failure = formatFailure(event);
      if (failure) toast.failure(failure);
      const waiting = message ? null : formatOwnerMessage(event, me, teams);
      if (waiting) toast.warning(waiting);
    },
    [me, teams],
  );
  useEventListener(listen);
  return null;
}
