/** Toasts for events about the user's own sessions and tickets, on every page. */
import { useCallback } from "react";
import type { Event } from "@/api/types";
import { useEventListener } from "@/data/eventStream";
import { useMe } from "@/data/me";
import { toast } from "@/ui/toast";

const MESSAGES: Record<string, (event: Event, envName: string) => string> = {
  session_overridden: (event, envName) =>
    `${event.actor.name} took over ${envName} from you${formatReason(event)}`,
  session_expiring: (_, envName) =>
    `Your session on ${envName} expires soon. Extend it if you still need it.`,
  session_expired: (_, envName) => `Your session on ${envName} expired`,
  ticket_granted: (_, envName) => `You now hold ${envName}`,
};

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
  const message = MESSAGES[event.kind];
  if (!message || readText(event, "holderId") !== me || event.actor.id === me) return null;
  const envName = event.subjects.find(each => each.type === "environment")?.name ?? "an environment";
  return message(event, envName);
}

export function useSessionToasts() {
  const me = useMe().user.id;
  const listen = useCallback(
    (event: Event) => {
      const message = formatSessionMessage(event, me);
      if (message) toast[event.kind === "ticket_granted" ? "success" : "warning"](message);
    },
    [me],
  );
  useEventListener(listen);
}
