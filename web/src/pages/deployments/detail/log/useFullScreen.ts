import { useFocusReturn, useFocusTrap } from "@mantine/hooks";
import { useEffect, useState } from "react";

/** Full screen of an element: it covers the window and keeps the focus. Escape leaves it. */
export function useFullScreen() {
  const [isFull, setFull] = useState(false);
  const trap = useFocusTrap(isFull);
  useFocusReturn({ opened: isFull });
  useEffect(() => {
    if (!isFull) return;
    const press = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || event.defaultPrevented) return;
      event.preventDefault();
      setFull(false);
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [isFull]);
  return { isFull, toggle: () => setFull(was => !was), trap };
}
