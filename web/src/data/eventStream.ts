/** Live updates: one event stream per tab. Events invalidate queries; pages refetch what they show. */
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { EVENT_KINDS } from "@/api/kinds.gen";
import type { Event } from "@/api/types";
import { changesAccess, ME_KEY, type Resource, resourceKey, resourcesInvalidatedBy } from "./queryKeys";
import { RefetchSchedule } from "./refetchSchedule";

export type ConnectionState = "connecting" | "live" | "interrupted" | "unavailable";

const RECONNECT_MS_MIN = 1_000;
const RECONNECT_MS_MAX = 30_000;
/** Interval at which a user without permission for the event stream checks for new permissions. */
const ACCESS_POLL_MS = 15_000;

let state: ConnectionState = "connecting";
const watchers = new Set<() => void>();
const listeners = new Set<(event: Event) => void>();
const inboxListeners = new Set<() => void>();

function setState(next: ConnectionState) {
  if (state === next) return;
  state = next;
  for (const watcher of watchers) watcher();
}

export function useConnectionState(): ConnectionState {
  return useSyncExternalStore(
    watcher => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => state,
  );
}

/** Calls `listen` for every event of the organization. */
export function useEventListener(listen: (event: Event) => void) {
  useEffect(() => {
    listeners.add(listen);
    return () => {
      listeners.delete(listen);
    };
  }, [listen]);
}

/** Calls `listen` when the stream opens, and whenever the number of unread notifications changes. */
export function useInboxListener(listen: () => void) {
  useEffect(() => {
    inboxListeners.add(listen);
    return () => {
      inboxListeners.delete(listen);
    };
  }, [listen]);
}

/** Opens the event stream of the organization if the user may read events. Used once, by the shell. */
export function useEventStream(org: string, mayRead: boolean) {
  const queries = useQueryClient();
  useEffect(() => {
    if (!mayRead) {
      setState("unavailable");
      const poll = setInterval(() => queries.invalidateQueries({ queryKey: ME_KEY }), ACCESS_POLL_MS);
      return () => clearInterval(poll);
    }
    const schedule = new RefetchSchedule<Resource>(nouns =>
      Promise.all(nouns.map(noun => queries.invalidateQueries({ queryKey: resourceKey(org, noun) }))),
    );
    const stop = openEventStream(org, {
      onEvent(event) {
        schedule.add([...resourcesInvalidatedBy(event.kind), "events"]);
        if (changesAccess(event.kind)) queries.invalidateQueries({ queryKey: ME_KEY });
        for (const listener of listeners) listener(event);
      },
      // The server creates notifications shortly after their events.
      onInbox() {
        queries.invalidateQueries({ queryKey: resourceKey(org, "notifications") });
        for (const listener of inboxListeners) listener();
      },
      onOpen() {
        // The server ends the stream when the user's access changes.
        queries.invalidateQueries({ queryKey: ME_KEY });
        refetchAll(queries, org);
      },
    });
    return () => {
      schedule.stop();
      stop();
    };
  }, [org, queries, mayRead]);
}

/** Refetches all queries, after those in flight: responses from before the stream opened may have missed events. */
function refetchAll(queries: QueryClient, org: string) {
  for (const query of queries.getQueryCache().findAll({ queryKey: ["org", org] })) {
    const answered = query.state.fetchStatus === "fetching" ? query.promise : undefined;
    Promise.allSettled([answered]).then(() =>
      queries.invalidateQueries({ queryKey: query.queryKey, exact: true }),
    );
  }
}

type StreamHandlers = { onEvent: (event: Event) => void; onInbox: () => void; onOpen: () => void };

function openEventStream(org: string, handlers: StreamHandlers): () => void {
  let source: EventSource | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let wait = RECONNECT_MS_MIN;

  const open = () => {
    source = new EventSource(`/api/v1/organizations/${encodeURIComponent(org)}/events?inbox=true`);
    source.onopen = () => {
      wait = RECONNECT_MS_MIN;
      setState("live");
      handlers.onOpen();
    };
    source.onerror = () => {
      setState("interrupted");
      // The browser reconnects unless the server rejected the request.
      if (source?.readyState !== EventSource.CLOSED) return;
      retry = setTimeout(open, wait);
      wait = Math.min(wait * 2, RECONNECT_MS_MAX);
    };
    source.addEventListener("inbox", () => handlers.onInbox());
    for (const kind of EVENT_KINDS) {
      source.addEventListener(kind, message => handlers.onEvent(JSON.parse(message.data) as Event));
    }
  };

  setState("connecting");
  open();
  return () => {
    clearTimeout(retry);
    source?.close();
  };
}
