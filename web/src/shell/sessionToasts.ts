/** Toasts for events about the user's own sessions and tickets, on every page. */
import { useCallback } from "react";
import type { Event } from "@/api/types";
import { useLiveEvents } from "@/data/live";
import { useMe } from "@/data/me";
import { toast } from "@/ui/toast";

const MESSAGES: Record<string, (event: Event, envName: string) => string> = {
  session_overridden: (event, envName) => `${event.actor.name} took over ${envName} from you${why(event)}`,
  session_expiring: (_, envName) =>
    `Your session on ${envName} expires soon. Extend it if you still need it.`,
  session_expired: (_, envName) => `Your session on ${envName} expired`,
  ticket_granted: (_, envName) => `You now hold ${envName}`,
};

function read(event: Event, name: string): string | undefined {
  const value = (event.data as Record<string, unknown>)[name];
  return typeof value === "string" ? value : undefined;
}

function why(event: Event): string {
  const reason = read(event, "reason") ?? read(event, "overrideReason");
  return reason ? `: “${reason}”` : "";
}

/** Returns the toast for a user if the event is about their session and another actor caused it. */
export function sessionMessage(event: Event, me: string): string | null {
  const message = MESSAGES[event.kind];
  if (!message || read(event, "holderId") !== me || event.actor.id === me) return null;
  const envName = event.subjects.find(each => each.type === "environment")?.name ?? "an environment";
  return message(event, envName);
}

export function useSessionToasts() {
  const me = useMe().user.id;
  const listen = useCallback(
    (event: Event) => {
      const message = sessionMessage(event, me);
      if (message) toast[event.kind === "ticket_granted" ? "success" : "warning"](message);
    },
    [me],
  );
  useLiveEvents(listen);
}
