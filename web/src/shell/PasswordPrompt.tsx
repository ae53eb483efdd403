import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { setPasswordPrompt } from "@/api/client";

const ConfirmPasswordDialog = lazy(() => import("./ConfirmPasswordDialog"));

/**
 * Asks for the password when the server requires reauthentication. Concurrent requests share one dialog.
 * Mounted before the pages, so that its Escape handler runs before the one of the dialog that sent the request.
 */
export function PasswordPrompt() {
  const [isOpen, setOpen] = useState(false);
  const answer = useRef<((isConfirmed: boolean) => void) | null>(null);
  useEffect(() => {
    let asked: Promise<boolean> | null = null;
    setPasswordPrompt(() => {
      asked ??= new Promise<boolean>(resolve => {
        answer.current = isConfirmed => {
          asked = null;
          answer.current = null;
          setOpen(false);
          resolve(isConfirmed);
        };
        setOpen(true);
      });
      return asked;
    });
    const cancel = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || !answer.current) return;
      event.stopImmediatePropagation();
      answer.current(false);
    };
    window.addEventListener("keydown", cancel, { capture: true });
    return () => window.removeEventListener("keydown", cancel, { capture: true });
  }, []);
  if (!isOpen) return null;
  return (
    <Suspense fallback={null}>
      <ConfirmPasswordDialog onAnswer={isConfirmed => answer.current?.(isConfirmed)} />
    </Suspense>
  );
}
