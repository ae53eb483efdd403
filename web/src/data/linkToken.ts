/** The token in the fragment of a link (`/invitation#TOKEN`). A fragment is never sent to a server. */
import { useLocation, useRouter } from "@tanstack/react-router";
import { useEffect, useState } from "react";

/** Takes the token out of the address bar and keeps it in memory only: it goes into no bookmark and no screenshot. */
export function useLinkToken(): string {
  const router = useRouter();
  const { hash, pathname } = useLocation();
  const [token, setToken] = useState(hash);
  useEffect(() => {
    if (!hash) return;
    setToken(hash);
    router.history.replace(pathname);
  }, [hash, pathname, router]);
  return hash || token;
}
