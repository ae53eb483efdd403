/** The token in a link's fragment (`/invitation#TOKEN`). Browsers do not send fragments to servers. */
import { useLocation, useRouter } from "@tanstack/react-router";
import { useEffect, useState } from "react";

/** Returns the token and removes it from the URL, which keeps it out of bookmarks and screenshots. */
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
