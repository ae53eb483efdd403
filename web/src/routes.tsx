/** Routes of the dashboard. Pages are lazy-loaded. */
import { createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { deployedQuery } from "./data/deployed";
import { meQuery } from "./data/me";
import { maySomewhere } from "./data/permissions";
import { queryClient } from "./data/queryClient";
import { requireLogin } from "./data/requireLogin";
import { createSearchValidator, parseCount, parseText } from "./data/searchParams";
import { lacksSecondFactor } from "./data/secondFactor";
import { org, root } from "./layoutRoutes";
import { settingsRoute } from "./settingsRoutes";
import { ErrorPage } from "./shell/ErrorPage";
import { loadLastOrganization } from "./shell/lastOrganization";

/** A URL without organization leads to the page of that name in the organization visited last. */
const unknown = createRoute({
  getParentRoute: () => root,
  path: "$",
  beforeLoad: async ({ location }) => {
    const me = await requireLogin(location.href);
    const org = loadLastOrganization(me.organizations);
    if (org) throw redirect({ href: `/o/${org}${location.href}`, replace: true });
  },
  component: ErrorPage,
});

const index = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: async () => {
    const me = await requireLogin("/");
    const org = loadLastOrganization(me.organizations);
    throw org ? redirect({ to: "/o/$org", params: { org } }) : redirect({ to: "/profile" });
  },
});

const login = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: createSearchValidator({ next: parseText }),
  component: lazyRouteComponent(() => import("./pages/login/LoginPage"), "LoginPage"),
});

const invitation = createRoute({
  getParentRoute: () => root,
  path: "/invitation",
  component: lazyRouteComponent(() => import("./pages/invitation/InvitationPage"), "InvitationPage"),
});

const resetPassword = createRoute({
  getParentRoute: () => root,
  path: "/reset-password",
  component: lazyRouteComponent(
    () => import("./pages/reset-password/ResetPasswordPage"),
    "ResetPasswordPage",
  ),
});

const device = createRoute({
  getParentRoute: () => root,
  path: "/device",
  beforeLoad: ({ location }) => requireLogin(location.href).then(() => {}),
  component: lazyRouteComponent(() => import("./pages/device/DevicePage"), "DevicePage"),
});

const confirmed = createRoute({
  getParentRoute: () => root,
  path: "/confirmed",
  component: lazyRouteComponent(() => import("./pages/confirmed/ConfirmedPage"), "ConfirmedPage"),
});

const profile = createRoute({
  getParentRoute: () => root,
  path: "/profile",
  // `required` is the organization that requires a second factor.
  validateSearch: createSearchValidator<"required">({ required: parseText }),
  beforeLoad: async ({ location, search }): Promise<void> => {
    const me = await requireLogin(location.href);
    const org = loadLastOrganization(me.organizations);
    const current = me.organizations.find(each => each.slug === org);
    // The pages of an organization that requires a second factor are closed until there is one.
    if (!search.required && current && !lacksSecondFactor(me, current))
      throw redirect({ to: "/o/$org/profile", params: { org: current.slug }, replace: true });
  },
  component: lazyRouteComponent(() => import("./pages/profile/ProfilePage"), "StandaloneProfilePage"),
});

const instanceOrganizations = createRoute({
  getParentRoute: () => root,
  path: "/instance/organizations",
  beforeLoad: ({ location }) => requireLogin(location.href).then(() => {}),
  component: lazyRouteComponent(() => import("./pages/instance/OrganizationsPage"), "OrganizationsPage"),
});

/** Inside of the shell, so that the navigation stays. */
const unknownInOrganization = createRoute({
  getParentRoute: () => org,
  path: "$",
  component: ErrorPage,
});

const home = createRoute({
  getParentRoute: () => org,
  path: "/",
  // Prefetched in parallel with the page's code.
  loader: ({ params }) => {
    const me = queryClient.getQueryData(meQuery.queryKey);
    const organization = me?.organizations.find(each => each.slug === params.org);
    if (organization && maySomewhere(organization, "deployments:read"))
      void queryClient.prefetchInfiniteQuery(deployedQuery(params.org));
  },
  component: lazyRouteComponent(() => import("./pages/home/HomePage"), "HomePage"),
});

const profileInOrganization = createRoute({
  getParentRoute: () => org,
  path: "profile",
  component: lazyRouteComponent(() => import("./pages/profile/ProfilePage"), "ProfilePage"),
});

const welcome = createRoute({
  getParentRoute: () => org,
  path: "welcome",
  component: lazyRouteComponent(() => import("./pages/welcome/WelcomePage"), "WelcomePage"),
});

const environments = createRoute({
  getParentRoute: () => org,
  path: "environments",
  validateSearch: createSearchValidator({ search: parseText, show: parseText }),
  component: lazyRouteComponent(
    () => import("./pages/environments/list/EnvironmentsPage"),
    "EnvironmentsPage",
  ),
});

const environment = createRoute({
  getParentRoute: () => org,
  path: "environments/$pipelineId/$envName",
  validateSearch: createSearchValidator({ page: parseCount, do: parseText }),
  component: lazyRouteComponent(
    () => import("./pages/environments/detail/EnvironmentPage"),
    "EnvironmentPage",
  ),
});

const pipelines = createRoute({
  getParentRoute: () => org,
  path: "pipelines",
  validateSearch: createSearchValidator({ search: parseText, status: parseText }),
  component: lazyRouteComponent(() => import("./pages/pipelines/list/PipelinesPage"), "PipelinesPage"),
});

const pipeline = createRoute({
  getParentRoute: () => org,
  path: "pipelines/$pipelineId",
  validateSearch: createSearchValidator({
    tab: parseText,
    do: parseText,
    target: parseText,
    status: parseText,
  }),
  component: lazyRouteComponent(() => import("./pages/pipelines/detail/PipelinePage"), "PipelinePage"),
});

const deployment = createRoute({
  getParentRoute: () => org,
  path: "deployments/$deploymentId",
  validateSearch: createSearchValidator({
    step: parseText,
    attempt: parseCount,
    lines: parseText,
    q: parseText,
  }),
  component: lazyRouteComponent(() => import("./pages/deployments/detail/DeploymentPage"), "DeploymentPage"),
});

const pullRequests = createRoute({
  getParentRoute: () => org,
  path: "pull-requests",
  validateSearch: createSearchValidator({ state: parseText }),
  component: lazyRouteComponent(
    () => import("./pages/pull-requests/list/PullRequestsPage"),
    "PullRequestsPage",
  ),
});

const pullRequest = createRoute({
  getParentRoute: () => org,
  path: "pull-requests/$repositoryId/$number",
  component: lazyRouteComponent(
    () => import("./pages/pull-requests/detail/PullRequestPage"),
    "PullRequestPage",
  ),
});

const approvals = createRoute({
  getParentRoute: () => org,
  path: "approvals",
  validateSearch: createSearchValidator({ status: parseText, approval: parseText, do: parseText }),
  component: lazyRouteComponent(() => import("./pages/approvals/list/ApprovalsPage"), "ApprovalsPage"),
});

const inbox = createRoute({
  getParentRoute: () => org,
  path: "inbox",
  component: lazyRouteComponent(() => import("./pages/inbox/InboxPage"), "InboxPage"),
});

const events = createRoute({
  getParentRoute: () => org,
  path: "events",
  validateSearch: createSearchValidator({
    kind: parseText,
    actor: parseText,
    pipeline: parseText,
    deployment: parseText,
    environment: parseText,
    from: parseText,
    to: parseText,
    event: parseText,
    flat: parseText,
  }),
  component: lazyRouteComponent(() => import("./pages/events/list/AuditLogPage"), "AuditLogPage"),
});

const insights = createRoute({
  getParentRoute: () => org,
  path: "insights",
  validateSearch: createSearchValidator({ days: parseCount, pipeline: parseText }),
  component: lazyRouteComponent(() => import("./pages/insights/InsightsPage"), "InsightsPage"),
});

const githubApp = createRoute({
  getParentRoute: () => org,
  path: "github-app",
  validateSearch: createSearchValidator({ code: parseText, state: parseText }),
  component: lazyRouteComponent(() => import("./pages/repositories/app/GitHubAppPage"), "GitHubAppPage"),
});

export const routeTree = root.addChildren([
  index,
  unknown,
  login,
  invitation,
  resetPassword,
  device,
  confirmed,
  profile,
  instanceOrganizations,
  org.addChildren([
    home,
    profileInOrganization,
    welcome,
    environments,
    environment,
    pipelines,
    pipeline,
    deployment,
    pullRequests,
    pullRequest,
    approvals,
    inbox,
    events,
    insights,
    githubApp,
    unknownInOrganization,
    settingsRoute,
  ]),
]);
