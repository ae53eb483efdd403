import {
  Badge,
  Box,
  Group,
  Kbd,
  NavLink,
  type NavLinkProps,
  Stack,
  Text,
  UnstyledButton,
} from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { createLink, useMatchRoute } from "@tanstack/react-router";
import { forwardRef, lazy, Suspense, useState } from "react";
import { pendingApprovalsQuery } from "@/data/approvals";
import { useAccess, useOrg, usePermissionSomewhere } from "@/data/me";
import { notificationsQuery } from "@/data/notifications";
import { ConnectionStatus } from "./ConnectionStatus";
import { NAV_ITEMS, visiblePages } from "./navigation";
import { OrgButton } from "./OrgButton";
import { ProfileButton } from "./ProfileButton";

// Menus load after their buttons.
const OrgSwitcher = lazy(() => import("./OrgSwitcher"));
const ProfileMenu = lazy(() => import("./ProfileMenu"));

const SidebarLink = createLink(
  forwardRef<HTMLAnchorElement, NavLinkProps>((props, ref) => <NavLink component="a" ref={ref} {...props} />),
);

const PALETTE_KEYS = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘K" : "Ctrl K";

/** The number of items that wait for the user on a page. */
function CountBadge({ count: [count, what] = [0, ""] }: { count: [number, string] | undefined }) {
  if (count === 0) return null;
  return (
    <Badge size="sm" variant="filled" color="lantern.4" circle aria-label={`${count} ${what}`}>
      {count}
    </Badge>
  );
}

type Props = { find: () => void; showKeys: () => void; toggleScheme: () => void; onNavigate: () => void };

/** Sidebar: organization, search, pages, connection state and profile. */
export function Sidebar({ find, showKeys, toggleScheme, onNavigate }: Props) {
  const org = useOrg();
  const access = useAccess();
  const mayDecide = usePermissionSomewhere("approvals:decide");
  const approvals = useQuery({ ...pendingApprovalsQuery(org), enabled: mayDecide });
  const waiting = approvals.data?.data.length ?? 0;
  const unread = useQuery(notificationsQuery(org, true)).data?.data.length ?? 0;
  const counts: Record<string, [number, string]> = {
    Approvals: [waiting, "pending"],
    Inbox: [unread, "unread"],
  };
  // A deployment belongs to a pipeline.
  const isDeployment = Boolean(useMatchRoute()({ to: "/o/$org/deployments/$deploymentId" }));
  // A click on a menu that is still loading opens it once it is loaded.
  const [clicked, setClicked] = useState<"organizations" | "profile">();
  return (
    <Stack h="100%" gap="xs" p="sm">
      <Suspense fallback={<OrgButton onClick={() => setClicked("organizations")} />}>
        <OrgSwitcher isOpened={clicked === "organizations"} />
      </Suspense>
      <UnstyledButton
        onClick={find}
        px={10}
        py={7}
        style={{ borderRadius: 8, border: "1px solid rgba(255,255,255,.16)" }}
      >
        <Group justify="space-between" wrap="nowrap">
          <Group gap={8} wrap="nowrap">
            <IconSearch size={15} aria-hidden />
            <Text size="sm">Search</Text>
          </Group>
          <Kbd
            size="xs"
            visibleFrom="sm"
            bg="transparent"
            c="inherit"
            style={{ borderColor: "rgba(255,255,255,.25)" }}
          >
            {PALETTE_KEYS}
          </Kbd>
        </Group>
      </UnstyledButton>
      <Box style={{ flex: 1, overflowY: "auto" }}>
        <Stack gap={2} component="nav" aria-label="Main">
          {visiblePages(access, NAV_ITEMS).map(item => (
            <SidebarLink
              key={item.to}
              to={item.to}
              params={{ org }}
              activeOptions={{ exact: "exact" in item, includeSearch: false }}
              label={item.label}
              leftSection={<item.icon size={18} stroke={1.7} aria-hidden />}
              rightSection={<CountBadge count={counts[item.label]} />}
              {...(isDeployment && item.label === "Pipelines" ? { "aria-current": "page" } : {})}
              onClick={onNavigate}
            />
          ))}
        </Stack>
      </Box>
      <ConnectionStatus />
      <Suspense fallback={<ProfileButton onClick={() => setClicked("profile")} />}>
        <ProfileMenu isOpened={clicked === "profile"} showKeys={showKeys} toggleScheme={toggleScheme} />
      </Suspense>
    </Stack>
  );
}
