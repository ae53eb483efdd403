/** The root route, and the layout of an organization's pages. */
import { createRootRouteWithContext, createRoute, Outlet, redirect } from "@tanstack/react-router";
import { findOrganization } from "./data/organization";
import { requireLogin } from "./data/requireLogin";
import { lacksSecondFactor } from "./data/secondFactor";
import { ErrorPage } from "./shell/ErrorPage";
import { Shell } from "./shell/Shell";

export const root = createRootRouteWithContext()({
  component: Outlet,
  notFoundComponent: () => <ErrorPage />,
});

export const org = createRoute({
  getParentRoute: () => root,
  path: "/o/$org",
  beforeLoad: async ({ location, params }): Promise<void> => {
    const me = await requireLogin(location.href);
    const organization = me.organizations.find(each => each.slug === params.org || each.id === params.org);
    if (organization && lacksSecondFactor(me, organization))
      throw redirect({ to: "/profile", search: { required: organization.slug } });
    if (organization) return;
    // The URL may contain a former slug.
    const renamed = await findOrganization(params.org);
    if (renamed)
      throw redirect({
        href: location.href.replace(`/o/${params.org}`, `/o/${renamed.slug}`),
        replace: true,
      });
  },
  component: Shell,
});
