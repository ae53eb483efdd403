import "./theme/styles";
import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { lazy, StrictMode, Suspense } from "react";
import { createRoot } from "react-dom/client";
import { queryClient } from "./data/queryClient";
import { router } from "./router";
import { PasswordPrompt } from "./shell/PasswordPrompt";
import { theme, variables } from "./theme/theme";

const Notifications = lazy(() => import("./ui/Toasts"));

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no root");

// Load the page's code in parallel with the current user.
const [routes] = router.getMatchedRoutes(location.pathname);
for (const route of routes) void router.loadRouteChunk(route);

createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} cssVariablesResolver={variables} defaultColorScheme="auto">
      <Suspense fallback={null}>
        <Notifications />
      </Suspense>
      <QueryClientProvider client={queryClient}>
        <PasswordPrompt />
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
