/** Routes of the settings of an organization. */
import { createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { createSearchValidator, parseText } from "./data/searchParams";
import { org } from "./layoutRoutes";

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
  // `connect=app` opens the dialog to connect the repository through a GitHub App; `added` waits for the first sync.
  validateSearch: createSearchValidator({ connect: parseText, added: parseText }),
  component: lazyRouteComponent(() => import("./pages/repositories/detail/RepositoryPage"), "RepositoryPage"),
});

const chats = createRoute({
  getParentRoute: () => settings,
  path: "chats",
  component: lazyRouteComponent(() => import("./pages/chats/ChatsPage"), "ChatsPage"),
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

export const settingsRoute = settings.addChildren([
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
  chats,
  webhooks,
  webhook,
  customSteps,
  registry,
  runners,
  analysis,
]);
