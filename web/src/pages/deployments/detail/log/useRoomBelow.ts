import { useLayoutEffect, useState } from "react";

/** Pixels from the top of an element to the bottom of the unscrolled window; null without an element. */
export function useRoomBelow(element: HTMLElement | null): number | null {
  const [room, setRoom] = useState<number | null>(null);
  useLayoutEffect(() => {
    if (!element) return;
    const measure = () =>
      setRoom(window.innerHeight - Math.round(element.getBoundingClientRect().top + window.scrollY));
    measure();
    // What is above the element may load later or change its height.
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    window.addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      window.removeEventListener("resize", measure);
    };
  }, [element]);
  return room;
}
