/** Pages of an organization, as listed in the navigation, the command palette and the keyboard shortcuts. */
import {
  IconActivity,
  IconAnchor,
  IconChartHistogram,
  IconGitPullRequest,
  IconHome,
  IconInbox,
  IconRoute,
  IconSettings,
  IconThumbUp,
  type TablerIcon,
} from "@tabler/icons-react";

import { type Access, may, maySomewhere, type Permission } from "@/data/permissions";

/** The permission that a page needs: on any resource, or in the whole organization. */
type PageAccess = { needs: Permission; everywhere?: true };

export type NavItem = PageAccess & {
  to: string;
  label: string;
  icon: TablerIcon;
  key: string;
  exact?: boolean;
};

export const NAV_ITEMS = [
  { to: "/o/$org", label: "Home", icon: IconHome, key: "h", exact: true, needs: "organization:read" },
  { to: "/o/$org/inbox", label: "Inbox", icon: IconInbox, key: "n", needs: "notifications:own" },
  {
    to: "/o/$org/environments",
    label: "Environments",
    icon: IconAnchor,
    key: "e",
    needs: "environments:read",
  },
  { to: "/o/$org/pipelines", label: "Pipelines", icon: IconRoute, key: "p", needs: "pipelines:read" },
  {
    to: "/o/$org/pull-requests",
    label: "Pull requests",
    icon: IconGitPullRequest,
    key: "r",
    needs: "pipelines:read",
  },
  { to: "/o/$org/approvals", label: "Approvals", icon: IconThumbUp, key: "a", needs: "approvals:read" },
  { to: "/o/$org/events", label: "Audit log", icon: IconActivity, key: "v", needs: "events:read" },
  {
    to: "/o/$org/insights",
    label: "Insights",
    icon: IconChartHistogram,
    key: "i",
    needs: "deployments:read",
    everywhere: true,
  },
  {
    to: "/o/$org/settings",
    label: "Organization Settings",
    icon: IconSettings,
    key: "s",
    needs: "organization:read",
  },
] as const satisfies NavItem[];

export const SETTINGS_TABS = [
  { to: "/o/$org/settings/general", label: "General", group: "Organization", needs: "organization:read" },
  { to: "/o/$org/settings/tokens", label: "API Tokens", group: "Organization", needs: "tokens:own" },
  { to: "/o/$org/settings/members", label: "Members", group: "Organization", needs: "members:read" },
  { to: "/o/$org/settings/teams", label: "Teams", group: "Organization", needs: "members:read" },
  { to: "/o/$org/settings/secrets", label: "Secrets", group: "Pipelines", needs: "secrets:read" },
  {
    to: "/o/$org/settings/repositories",
    label: "Repositories",
    group: "Pipelines",
    needs: "repositories:read",
  },
  { to: "/o/$org/settings/chats", label: "Chats", group: "Integrations", needs: "webhooks:read" },
  { to: "/o/$org/settings/webhooks", label: "Webhooks", group: "Integrations", needs: "webhooks:read" },
  {
    to: "/o/$org/settings/custom-steps",
    label: "Custom steps",
    group: "Pipelines",
    needs: "registries:read",
  },
  { to: "/o/$org/settings/runners", label: "Runners", group: "Pipelines", needs: "runners:read" },
  {
    to: "/o/$org/settings/analysis",
    label: "Analysis",
    group: "Integrations",
    needs: "analysis:read",
    everywhere: true,
  },
] as const satisfies (PageAccess & { to: string; label: string; group: string })[];

/** The pages that the user may read. */
export function visiblePages<Item extends PageAccess>(access: Access, pages: readonly Item[]): Item[] {
  return pages.filter(({ needs, everywhere }) =>
    everywhere ? may(access, needs) : maySomewhere(access, needs),
  );
}
