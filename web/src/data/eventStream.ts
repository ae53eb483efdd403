/** Live updates: one event stream per tab. Events invalidate queries; pages refetch what they show. */
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { EVENT_KINDS } from "@/api/kinds.gen";
import type { Event } from "@/api/types";
import { changesAccess, ME_KEY, type Resource, resourceKey, resourcesInvalidatedBy } from "./queryKeys";

export type ConnectionState = "connecting" | "live" | "interrupted" | "unavailable";

/** Debounce: events come in bursts. Queries are invalidated soon after the first event, then at most once per interval. */
const COALESCE_MS = 150;
const FLUSH_EVERY_MS = 1_000;
const RECONNECT_MS_MIN = 1_000;
const RECONNECT_MS_MAX = 30_000;
/** Interval at which a user without permission for the event stream checks for new permissions. */
const ACCESS_POLL_MS = 15_000;

let state: ConnectionState = "connecting";
const watchers = new Set<() => void>();
const listeners = new Set<(event: Event) => void>();

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

/** Opens the event stream of the organization if the user may read events. Used once, by the shell. */
export function useEventStream(org: string, mayRead: boolean) {
  const queries = useQueryClient();
  useEffect(() => {
    if (!mayRead) {
      setState("unavailable");
      const poll = setInterval(() => queries.invalidateQueries({ queryKey: ME_KEY }), ACCESS_POLL_MS);
      return () => clearInterval(poll);
    }
    const stale = new Set<Resource>();
    let due: ReturnType<typeof setTimeout> | undefined;
    let flushedAt = 0;
    const flush = () => {
      due = undefined;
      flushedAt = Date.now();
      for (const noun of stale) queries.invalidateQueries({ queryKey: resourceKey(org, noun) });
      stale.clear();
    };
    const stop = openEventStream(org, {
      onEvent(event) {
        for (const noun of resourcesInvalidatedBy(event.kind)) stale.add(noun);
        stale.add("events");
        if (changesAccess(event.kind)) queries.invalidateQueries({ queryKey: ME_KEY });
        due ??= setTimeout(flush, Math.max(COALESCE_MS, flushedAt + FLUSH_EVERY_MS - Date.now()));
        for (const listener of listeners) listener(event);
      },
      onOpen() {
        // The server ends the stream when the user's access changes.
        queries.invalidateQueries({ queryKey: ME_KEY });
        refetchAll(queries, org);
      },
    });
    return () => {
      clearTimeout(due);
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

type StreamHandlers = { onEvent: (event: Event) => void; onOpen: () => void };

function openEventStream(org: string, handlers: StreamHandlers): () => void {
  let source: EventSource | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let wait = RECONNECT_MS_MIN;

  const open = () => {
    source = new EventSource(`/api/v1/organizations/${encodeURIComponent(org)}/events`);
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
