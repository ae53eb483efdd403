/** What concerns the reader's own holds is told at once, on whatever page they are. */
import { useCallback } from "react";
import type { Event } from "@/api/types";
import { useLiveEvents } from "@/data/live";
import { useMe } from "@/data/me";
import { tell, warn } from "@/ui/notify";

const CONCERNING: Record<string, (event: Event, place: string) => string> = {
  session_overridden: (event, place) => `${event.actor.name} took ${place} over from you${why(event)}.`,
  session_expiring: (_, place) => `Your hold of ${place} ends soon. Extend it if you still need it.`,
  session_expired: (_, place) => `Your hold of ${place} has ended, its time was over.`,
  ticket_granted: (_, place) => `It is your turn: ${place} is yours.`,
};

function read(event: Event, name: string): string | undefined {
  const value = (event.data as Record<string, unknown>)[name];
  return typeof value === "string" ? value : undefined;
}

function why(event: Event): string {
  const reason = read(event, "reason") ?? read(event, "overrideReason");
  return reason ? `: “${reason}”` : "";
}

/** The line for somebody, if the event concerns them and they did not do it themselves. */
export function concerns(event: Event, me: string): string | null {
  const line = CONCERNING[event.kind];
  if (!line || read(event, "holderId") !== me || event.actor.id === me) return null;
  const place = event.subjects.find(each => each.type === "environment")?.name ?? "an environment";
  return line(event, place);
}

export function useTold() {
  const me = useMe().user.id;
  const listen = useCallback(
    (event: Event) => {
      const line = concerns(event, me);
      if (line) (event.kind === "ticket_granted" ? tell : warn)(line);
    },
    [me],
  );
  useLiveEvents(listen);
}
