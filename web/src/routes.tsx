/** Routes of the dashboard. Pages are lazy-loaded. */
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import { whenSignedOut } from "./api/client";
import { problemOf } from "./api/problem";
import { deployedPages } from "./data/deployed";
import { ME } from "./data/keys";
import { meQuery } from "./data/me";
import { queries } from "./data/queries";
import { count, readSearch, search, text, writeSearch } from "./data/search";
import { PageProblem } from "./shell/PageProblem";
import { lastOrganization } from "./shell/remembered";
import { Shell } from "./shell/Shell";
import { Loading } from "./ui/Loading";

const root = createRootRouteWithContext()({ component: Outlet, notFoundComponent: () => <PageProblem /> });

/** Loads the current user. Without a login, redirects to the login page, which leads back to the requested page. */
async function signedIn(href: string) {
  try {
    return await queries.ensureQueryData(meQuery);
  } catch (error) {
    if (problemOf(error).status !== 401) throw error;
    throw redirect({ to: "/sign-in", search: href === "/" ? {} : { next: href } });
  }
}

const start = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: async () => {
    const me = await signedIn("/");
    const org = lastOrganization(me.organizations);
    throw org ? redirect({ to: "/o/$org", params: { org } }) : redirect({ to: "/profile" });
  },
});

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: search({ next: text }),
  component: lazyRouteComponent(() => import("./pages/sign-in/SignIn"), "SignIn"),
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

const profile = createRoute({
  getParentRoute: () => root,
  path: "/profile",
  beforeLoad: ({ location }) => signedIn(location.href).then(() => {}),
  component: lazyRouteComponent(() => import("./pages/profile/Profile"), "Profile"),
});

const org = createRoute({
  getParentRoute: () => root,
  path: "/o/$org",
  beforeLoad: ({ location }) => signedIn(location.href).then(() => {}),
  component: Shell,
});

const home = createRoute({
  getParentRoute: () => org,
  path: "/",
  // Prefetched in parallel with the page's code.
  loader: ({ params }) => void queries.prefetchInfiniteQuery(deployedPages(params.org)),
  component: lazyRouteComponent(() => import("./pages/home/Home"), "Home"),
});

const welcome = createRoute({
  getParentRoute: () => org,
  path: "welcome",
  component: lazyRouteComponent(() => import("./pages/welcome/Welcome"), "Welcome"),
});

const environments = createRoute({
  getParentRoute: () => org,
  path: "environments",
  validateSearch: search({ search: text, show: text }),
  component: lazyRouteComponent(() => import("./pages/environments/list/Board"), "Board"),
});

const environment = createRoute({
  getParentRoute: () => org,
  path: "environments/$pipelineId/$envName",
  validateSearch: search({ page: count }),
  component: lazyRouteComponent(
    () => import("./pages/environments/detail/EnvironmentPage"),
    "EnvironmentPage",
  ),
});

const pipelines = createRoute({
  getParentRoute: () => org,
  path: "pipelines",
  validateSearch: search({ search: text, status: text }),
  component: lazyRouteComponent(() => import("./pages/pipelines/list/Pipelines"), "Pipelines"),
});

const pipeline = createRoute({
  getParentRoute: () => org,
  path: "pipelines/$pipelineId",
  validateSearch: search({ tab: text }),
  component: lazyRouteComponent(() => import("./pages/pipelines/detail/PipelinePage"), "PipelinePage"),
});

const deployment = createRoute({
  getParentRoute: () => org,
  path: "deployments/$deploymentId",
  validateSearch: search({ step: text, attempt: count, lines: text, q: text }),
  component: lazyRouteComponent(() => import("./pages/deployments/detail/DeploymentPage"), "DeploymentPage"),
});

const approvals = createRoute({
  getParentRoute: () => org,
  path: "approvals",
  validateSearch: search({ status: text, approval: text }),
  component: lazyRouteComponent(() => import("./pages/approvals/list/Approvals"), "Approvals"),
});

const events = createRoute({
  getParentRoute: () => org,
  path: "events",
  validateSearch: search({
    kind: text,
    actor: text,
    pipeline: text,
    deployment: text,
    environment: text,
    from: text,
    to: text,
    event: text,
  }),
  component: lazyRouteComponent(() => import("./pages/events/list/Events"), "Events"),
});

const insights = createRoute({
  getParentRoute: () => org,
  path: "insights",
  validateSearch: search({ days: count, pipeline: text }),
  component: lazyRouteComponent(() => import("./pages/insights/InsightsPage"), "InsightsPage"),
});

const settings = createRoute({
  getParentRoute: () => org,
  path: "settings",
  component: lazyRouteComponent(() => import("./pages/settings/Settings"), "Settings"),
});

const settingsStart = createRoute({
  getParentRoute: () => settings,
  path: "/",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/o/$org/settings/general", params });
  },
});

const general = createRoute({
  getParentRoute: () => settings,
  path: "general",
  component: lazyRouteComponent(() => import("./pages/general/General"), "General"),
});

const tokens = createRoute({
  getParentRoute: () => settings,
  path: "tokens",
  component: lazyRouteComponent(() => import("./pages/tokens/list/Tokens"), "Tokens"),
});

const members = createRoute({
  getParentRoute: () => settings,
  path: "members",
  component: lazyRouteComponent(() => import("./pages/members/list/Members"), "Members"),
});

const secrets = createRoute({
  getParentRoute: () => settings,
  path: "secrets",
  component: lazyRouteComponent(() => import("./pages/secrets/list/Secrets"), "Secrets"),
});

const repositories = createRoute({
  getParentRoute: () => settings,
  path: "repositories",
  component: lazyRouteComponent(() => import("./pages/repositories/list/Repositories"), "Repositories"),
});

const webhooks = createRoute({
  getParentRoute: () => settings,
  path: "webhooks",
  component: lazyRouteComponent(() => import("./pages/webhooks/list/Webhooks"), "Webhooks"),
});

const webhook = createRoute({
  getParentRoute: () => settings,
  path: "webhooks/$webhookId",
  component: lazyRouteComponent(() => import("./pages/webhooks/detail/WebhookPage"), "WebhookPage"),
});

const customSteps = createRoute({
  getParentRoute: () => settings,
  path: "custom-steps",
  component: lazyRouteComponent(() => import("./pages/registries/list/CustomSteps"), "CustomSteps"),
});

const registry = createRoute({
  getParentRoute: () => settings,
  path: "custom-steps/$registryId",
  component: lazyRouteComponent(() => import("./pages/registries/detail/RegistryPage"), "RegistryPage"),
});

const runners = createRoute({
  getParentRoute: () => settings,
  path: "runners",
  component: lazyRouteComponent(() => import("./pages/runners/list/Runners"), "Runners"),
});

const analysis = createRoute({
  getParentRoute: () => settings,
  path: "analysis",
  component: lazyRouteComponent(() => import("./pages/analysis/AnalysisPage"), "AnalysisPage"),
});

const tree = root.addChildren([
  start,
  signIn,
  invitation,
  resetPassword,
  profile,
  org.addChildren([
    home,
    welcome,
    environments,
    environment,
    pipelines,
    pipeline,
    deployment,
    approvals,
    events,
    insights,
    settings.addChildren([
      settingsStart,
      general,
      tokens,
      members,
      secrets,
      repositories,
      webhooks,
      webhook,
      customSteps,
      registry,
      runners,
      analysis,
    ]),
  ]),
]);

export const router = createRouter({
  routeTree: tree,
  defaultPreload: "intent",
  defaultPendingComponent: Loading,
  defaultErrorComponent: PageProblem,
  scrollRestoration: true,
  parseSearch: readSearch,
  stringifySearch: writeSearch,
});

/** Pages that work without a login. */
const OPEN_PAGES = ["/invitation", "/reset-password"];

whenSignedOut(() => {
  if (OPEN_PAGES.includes(router.state.location.pathname)) return;
  queries.removeQueries({ queryKey: ME });
  const { href, pathname } = router.state.location;
  if (pathname !== "/sign-in") router.navigate({ to: "/sign-in", search: { next: href } });
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
