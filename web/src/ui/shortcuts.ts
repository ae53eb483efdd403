/** Keyboard shortcuts: single keys, and `g` followed by the letter of a page. Inactive in text fields and dialogs. */
import { useEffect, useRef } from "react";

const SEQUENCE_MS_MAX = 1_200;

export type ShortcutMap = Record<string, () => void>;

function isBusy(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.closest("[role=dialog]")) return true;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

/** Registers shortcuts such as `{"?": …, "g h": …}`. */
export function useShortcuts(map: ShortcutMap) {
  const current = useRef(map);
  current.current = map;
  useEffect(() => {
    let first = "";
    let firstAt = 0;
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isBusy(event.target))
        return;
      const isSecond = first !== "" && event.timeStamp - firstAt < SEQUENCE_MS_MAX;
      const act = current.current[isSecond ? `${first} ${event.key}` : event.key];
      first = !isSecond && event.key === "g" ? "g" : "";
      firstAt = event.timeStamp;
      if (act) {
        event.preventDefault();
        act();
      }
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}
