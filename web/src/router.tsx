/** The router of the dashboard, and where it leads when the server asks for a login. */
import { createRouter } from "@tanstack/react-router";
import { setLoggedOutHandler, setSecondFactorHandler } from "./api/client";
import { queryClient } from "./data/queryClient";
import { ME_KEY } from "./data/queryKeys";
import { parseSearch, stringifySearch } from "./data/searchParams";
import { routeTree } from "./routes";
import { ErrorPage } from "./shell/ErrorPage";
import { LoadingRows } from "./ui/LoadingRows";

export const router = createRouter({
  routeTree: routeTree,
  defaultPreload: "intent",
  defaultPendingComponent: LoadingRows,
  defaultErrorComponent: ErrorPage,
  scrollRestoration: true,
  parseSearch: parseSearch,
  stringifySearch: stringifySearch,
});

/** Pages that work without a login. */
const OPEN_PAGES = ["/invitation", "/reset-password"];

setLoggedOutHandler(() => {
  if (OPEN_PAGES.includes(router.state.location.pathname)) return;
  queryClient.removeQueries({ queryKey: ME_KEY });
  const { href, pathname } = router.state.location;
  if (pathname !== "/sign-in") router.navigate({ to: "/sign-in", search: { next: href } });
});

// The requirement was switched on while the dashboard was open. Loads the user again and the page with it, which
// leads to the profile.
setSecondFactorHandler(() => {
  void queryClient.refetchQueries({ queryKey: ME_KEY }).then(() => router.invalidate());
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
  interface HistoryState {
    /** Message shown on the login page. */
    notice?: string;
  }
}
