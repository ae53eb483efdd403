/** Routes of the dashboard. Pages are lazy-loaded. */
import {
  createRootRouteWithContext,
  createRoute,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import { toProblem } from "./api/problem";
import { deployedQuery } from "./data/deployed";
import { meQuery } from "./data/me";
import { findOrganization } from "./data/organization";
import { maySomewhere } from "./data/permissions";
import { queryClient } from "./data/queryClient";
import { createSearchValidator, parseCount, parseText } from "./data/searchParams";
import { lacksSecondFactor } from "./data/secondFactor";
import { ErrorPage } from "./shell/ErrorPage";
import { loadLastOrganization } from "./shell/lastOrganization";
import { Shell } from "./shell/Shell";

const root = createRootRouteWithContext()({ component: Outlet, notFoundComponent: () => <ErrorPage /> });

/** Loads the current user. Without a login, redirects to the login page, which leads back to the requested page. */
async function requireLogin(href: string) {
  try {
    return await queryClient.ensureQueryData(meQuery);
  } catch (error) {
    if (toProblem(error).status !== 401) throw error;
    throw redirect({ to: "/sign-in", search: href === "/" ? {} : { next: href } });
  }
}

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
  beforeLoad: ({ location }) => requireLogin(location.href).then(() => {}),
  component: lazyRouteComponent(() => import("./pages/profile/ProfilePage"), "ProfilePage"),
});

const instanceOrganizations = createRoute({
  getParentRoute: () => root,
  path: "/instance/organizations",
  beforeLoad: ({ location }) => requireLogin(location.href).then(() => {}),
  component: lazyRouteComponent(() => import("./pages/instance/OrganizationsPage"), "OrganizationsPage"),
});

const org = createRoute({
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
  notFoundComponent: () => <ErrorPage />,
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
  validateSearch: createSearchValidator({ page: parseCount }),
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
  validateSearch: createSearchValidator({ tab: parseText }),
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
  validateSearch: createSearchValidator({ status: parseText, approval: parseText }),
  component: lazyRouteComponent(() => import("./pages/approvals/list/ApprovalsPage"), "ApprovalsPage"),
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
  }),
  component: lazyRouteComponent(() => import("./pages/events/list/AuditLogPage"), "AuditLogPage"),
});

const insights = createRoute({
  getParentRoute: () => org,
  path: "insights",
  validateSearch: createSearchValidator({ days: parseCount, pipeline: parseText }),
  component: lazyRouteComponent(() => import("./pages/insights/InsightsPage"), "InsightsPage"),
});

const settings = createRoute({
  getParentRoute: () => org,
  path: "settings",
  component: lazyRouteComponent(() => import("./pages/settings/SettingsLayout"), "SettingsLayout"),
});

const settingsIndex = createRoute({
  getParentRoute: () => settings,
  path: "/",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/o/$org/settings/general", params });
  },
});

const general = createRoute({
  getParentRoute: () => settings,
  path: "general",
  component: lazyRouteComponent(() => import("./pages/general/GeneralPage"), "GeneralPage"),
});

const tokens = createRoute({
  getParentRoute: () => settings,
  path: "tokens",
  component: lazyRouteComponent(() => import("./pages/tokens/list/TokensPage"), "TokensPage"),
});

const members = createRoute({
  getParentRoute: () => settings,
  path: "members",
  component: lazyRouteComponent(() => import("./pages/members/list/MembersPage"), "MembersPage"),
});

const member = createRoute({
  getParentRoute: () => settings,
  path: "members/$userId",
  component: lazyRouteComponent(() => import("./pages/members/detail/MemberPage"), "MemberPage"),
});

const teams = createRoute({
  getParentRoute: () => settings,
  path: "teams",
  component: lazyRouteComponent(() => import("./pages/teams/list/TeamsPage"), "TeamsPage"),
});

const team = createRoute({
  getParentRoute: () => settings,
  path: "teams/$teamId",
  component: lazyRouteComponent(() => import("./pages/teams/detail/TeamPage"), "TeamPage"),
});

const secrets = createRoute({
  getParentRoute: () => settings,
  path: "secrets",
  component: lazyRouteComponent(() => import("./pages/secrets/list/SecretsPage"), "SecretsPage"),
});

const repositories = createRoute({
  getParentRoute: () => settings,
  path: "repositories",
  component: lazyRouteComponent(
    () => import("./pages/repositories/list/RepositoriesPage"),
    "RepositoriesPage",
  ),
});

const repository = createRoute({
  getParentRoute: () => settings,
  path: "repositories/$repositoryId",
  // `connect=app` opens the dialog to connect the repository through a GitHub App.
  validateSearch: createSearchValidator({ connect: parseText }),
  component: lazyRouteComponent(() => import("./pages/repositories/detail/RepositoryPage"), "RepositoryPage"),
});

const githubApp = createRoute({
  getParentRoute: () => org,
  path: "github-app",
  validateSearch: createSearchValidator({ code: parseText, state: parseText }),
  component: lazyRouteComponent(() => import("./pages/repositories/app/GitHubAppPage"), "GitHubAppPage"),
});

const webhooks = createRoute({
  getParentRoute: () => settings,
  path: "webhooks",
  component: lazyRouteComponent(() => import("./pages/webhooks/list/WebhooksPage"), "WebhooksPage"),
});

const webhook = createRoute({
  getParentRoute: () => settings,
  path: "webhooks/$webhookId",
  component: lazyRouteComponent(() => import("./pages/webhooks/detail/WebhookPage"), "WebhookPage"),
});

const customSteps = createRoute({
  getParentRoute: () => settings,
  path: "custom-steps",
  component: lazyRouteComponent(() => import("./pages/registries/list/CustomStepsPage"), "CustomStepsPage"),
});

const registry = createRoute({
  getParentRoute: () => settings,
  path: "custom-steps/$registryId",
  component: lazyRouteComponent(() => import("./pages/registries/detail/RegistryPage"), "RegistryPage"),
});

const runners = createRoute({
  getParentRoute: () => settings,
  path: "runners",
  component: lazyRouteComponent(() => import("./pages/runners/list/RunnersPage"), "RunnersPage"),
});

const analysis = createRoute({
  getParentRoute: () => settings,
  path: "analysis",
  component: lazyRouteComponent(
    () => import("./pages/analysis/AnalysisSettingsPage"),
    "AnalysisSettingsPage",
  ),
});

export const routeTree = root.addChildren([
  index,
  login,
  invitation,
  resetPassword,
  device,
  confirmed,
  profile,
  instanceOrganizations,
  org.addChildren([
    home,
    welcome,
    environments,
    environment,
    pipelines,
    pipeline,
    deployment,
    pullRequests,
    pullRequest,
    approvals,
    events,
    insights,
    githubApp,
    settings.addChildren([
      settingsIndex,
      general,
      tokens,
      members,
      member,
      teams,
      team,
      secrets,
      repositories,
      repository,
      webhooks,
      webhook,
      customSteps,
      registry,
      runners,
      analysis,
    ]),
  ]),
]);
