/** Renders a part of the dashboard in an organization, with a stubbed server. */
import { MantineProvider } from "@mantine/core";
import { notificationsStore } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  RouterProvider,
} from "@tanstack/react-router";
import { cleanup, render } from "@testing-library/react";
import type { ReactNode } from "react";
import { expect, vi } from "vitest";
import { ME_KEY } from "@/data/queryKeys";

const ME = {
  user: { id: "usr_1", name: "Ada" },
  organizations: [{ id: "org_1", slug: "acme", name: "Acme", role: "owner", grants: [] }],
};

/** A request that the page sent. */
export type SentRequest = { call: string; body: unknown };

/** Answers requests from a map of "METHOD /path below the organization" to data; a missing entry is a 404. */
export function stubServer(answers: Record<string, unknown>): SentRequest[] {
  const sent: SentRequest[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    const { pathname } = new URL(request.url, "http://berth.test");
    const call = `${request.method} ${pathname.replace("/api/v1/organizations/acme", "")}`;
    sent.push({ call, body: await request.json().catch(() => null) });
    const answer = answers[call];
    if (answer !== undefined) return Response.json(answer);
    return Response.json({ code: "not_found", detail: "not found", status: 404 }, { status: 404 });
  });
  return sent;
}

/** Renders a component at `/o/acme/` and the path; parameters of the route are written as `$name`. */
export function renderPage(Page: () => ReactNode, route = "page", path = route) {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  client.setQueryData(ME_KEY, ME);
  const root = createRootRoute();
  const org = createRoute({ getParentRoute: () => root, path: "/o/$org" });
  const page = createRoute({ getParentRoute: () => org, path: route, component: Page });
  const router = createRouter({
    routeTree: root.addChildren([org.addChildren([page])]),
    history: createMemoryHistory({ initialEntries: [`/o/acme/${path}`] }),
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

/** Waits for a toast and removes it, because test files share the store. */
export async function expectToast(message: string) {
  const shown = () => notificationsStore.getState().notifications;
  await vi.waitFor(() => expect(shown().map(each => each.message)).toContain(message));
  notificationsStore.updateState(state => ({ ...state, notifications: [], queue: [] }));
}

export function removePage() {
  cleanup();
  vi.unstubAllGlobals();
}
