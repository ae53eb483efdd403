/** Pages of an organization, as listed in the navigation, the command palette and the keyboard shortcuts. */
import {
  IconActivity,
  IconAnchor,
  IconChartHistogram,
  IconHome,
  IconRoute,
  IconSettings,
  IconThumbUp,
  type TablerIcon,
} from "@tabler/icons-react";

export type NavItem = { to: string; label: string; icon: TablerIcon; key: string; exact?: boolean };

export const NAV_ITEMS = [
  { to: "/o/$org", label: "Home", icon: IconHome, key: "h", exact: true },
  { to: "/o/$org/environments", label: "Environments", icon: IconAnchor, key: "e" },
  { to: "/o/$org/pipelines", label: "Pipelines", icon: IconRoute, key: "p" },
  { to: "/o/$org/approvals", label: "Approvals", icon: IconThumbUp, key: "a" },
  { to: "/o/$org/events", label: "Audit log", icon: IconActivity, key: "v" },
  { to: "/o/$org/insights", label: "Insights", icon: IconChartHistogram, key: "i" },
  { to: "/o/$org/settings", label: "Organization Settings", icon: IconSettings, key: "s" },
] as const satisfies NavItem[];

export const SETTINGS_TABS = [
  { to: "/o/$org/settings/general", label: "General" },
  { to: "/o/$org/settings/tokens", label: "API Tokens" },
  { to: "/o/$org/settings/members", label: "Members" },
  { to: "/o/$org/settings/secrets", label: "Secrets" },
  { to: "/o/$org/settings/repositories", label: "Repositories" },
  { to: "/o/$org/settings/webhooks", label: "Webhooks" },
  { to: "/o/$org/settings/custom-steps", label: "Custom steps" },
  { to: "/o/$org/settings/runners", label: "Runners" },
  { to: "/o/$org/settings/analysis", label: "Analysis" },
] as const;
