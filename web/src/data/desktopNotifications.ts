/** Desktop notifications about new messages in the inbox, if the user turned them on in this browser. */
import { useCallback, useEffect, useRef, useSyncExternalStore } from "react";
import { useInboxListener } from "./eventStream";
import { fetchNotifications } from "./notifications";

/** `denied`: the browser does not allow them. */
export type DesktopNotificationState = "unsupported" | "denied" | "off" | "on";

const KEY = "berth.desktopNotifications";
/** Maximum number of notifications shown at once. */
const SHOWN_MAX = 5;

const watchers = new Set<() => void>();
/** Called before notifications are turned on, to mark what is in the inbox as old. */
const markers = new Set<() => Promise<void>>();

function readState(): DesktopNotificationState {
  if (!("Notification" in window)) return "unsupported";
  if (Notification.permission === "denied") return "denied";
  return Notification.permission === "granted" && localStorage.getItem(KEY) === "on" ? "on" : "off";
}

export function useDesktopNotificationState(): DesktopNotificationState {
  return useSyncExternalStore(watcher => {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  }, readState);
}

/** Asks the browser for permission when they are turned on. */
export async function setDesktopNotifications(isOn: boolean) {
  const isAllowed = isOn && (await Notification.requestPermission()) === "granted";
  if (isAllowed) await Promise.all([...markers].map(mark => mark()));
  localStorage.setItem(KEY, isAllowed ? "on" : "off");
  for (const watcher of watchers) watcher();
}

/**
 * Shows notifications that arrive while the dashboard is open and they are turned on. `open` is called when one is
 * clicked.
 */
export function useDesktopNotifications(org: string, open: () => void) {
  // Ids sort by time. Notifications up to this one are not shown.
  const newest = useRef<{ org: string; id: string }>(undefined);
  const clicked = useRef(open);
  clicked.current = open;
  const show = useCallback(async () => {
    const isOn = readState() === "on";
    const { data } = await fetchNotifications(org, true);
    const last = newest.current?.org === org ? newest.current.id : undefined;
    newest.current = { org, id: [...data.map(each => each.id), last ?? ""].sort().at(-1) ?? "" };
    if (last === undefined || !isOn) return;
    for (const each of data.filter(({ id }) => id > last).slice(0, SHOWN_MAX)) {
      // The tag keeps several tabs from showing it more than once.
      const shown = new Notification(each.summary, { tag: each.id });
      shown.onclick = () => {
        window.focus();
        shown.close();
        clicked.current();
      };
    }
  }, [org]);
  // A failed request shows nothing; the next message of the stream tries again.
  const tryToShow = useCallback(() => show().catch(() => undefined), [show]);
  useEffect(() => {
    markers.add(tryToShow);
    return () => {
      markers.delete(tryToShow);
    };
  }, [tryToShow]);
  useInboxListener(tryToShow);
}
