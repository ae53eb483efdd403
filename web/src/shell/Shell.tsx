import {
  AppShell,
  Burger,
  Container,
  Group,
  Text,
  useComputedColorScheme,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { Outlet, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";
import { useDesktopNotifications } from "@/data/desktopNotifications";
import { useEventStream } from "@/data/eventStream";
import { useAccess, useMe, useOrg, useOrganization, usePermissionSomewhere } from "@/data/me";
import { LoadingRows } from "@/ui/LoadingRows";
import { useShortcuts } from "@/ui/shortcuts";
import { Logo } from "./Logo";
import { saveLastOrganization } from "./lastOrganization";
import { NAV_ITEMS, visiblePages } from "./navigation";
import { Sidebar } from "./Sidebar";
import { UnknownOrganizationPage } from "./UnknownOrganizationPage";

const SessionToasts = lazy(() => import("./sessionToasts"));
const DemoChecklist = lazy(() => import("./DemoChecklist"));
const ShortcutsDialog = lazy(() => import("./ShortcutsDialog"));
const CommandPalette = lazy(() => import("./CommandPalette"));

/** Wider lines and tables are hard to read. */
const CONTENT_PX_MAX = 1600;

/** Layout of an organization's pages: navigation, command palette, keyboard shortcuts and the event stream. */
export function Shell() {
  const org = useOrg();
  const organization = useOrganization();
  const access = useAccess();
  const isDemo = useMe().demo != null;
  const navigate = useNavigate();
  const [menu, { toggle, close }] = useDisclosure();
  const [keys, showKeys] = useDisclosure();
  const [hasPalette, setHasPalette] = useState(false);
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const toggleScheme = () => setColorScheme(scheme === "dark" ? "light" : "dark");

  useEventStream(org, usePermissionSomewhere("events:read"));
  useDesktopNotifications(org, () => navigate({ to: "/o/$org/inbox", params: { org } }));
  useEffect(() => {
    if (organization) saveLastOrganization(organization.slug);
  }, [organization]);

  const openPalette = () => {
    setHasPalette(true);
    import("@mantine/spotlight").then(({ spotlight }) => spotlight.open());
  };
  useHotkeys([["mod+K", openPalette]], []);
  useShortcuts({
    "?": showKeys.open,
    t: toggleScheme,
    "/": () => document.querySelector<HTMLInputElement>("[data-page-search]")?.focus(),
    ...Object.fromEntries(
      visiblePages(access, NAV_ITEMS).map(item => [
        `g ${item.key}`,
        () => navigate({ to: item.to, params: { org } }),
      ]),
    ),
  });

  if (!organization) return <UnknownOrganizationPage />;
  return (
    <AppShell
      navbar={{ width: 232, breakpoint: "sm", collapsed: { mobile: !menu } }}
      header={{ height: { base: 52, sm: 0 } }}
      padding={{ base: "md", sm: "lg", lg: "xl" }}
    >
      <a className="skip-link" href="#content">
        Skip to content
      </a>
      <AppShell.Header hiddenFrom="sm" className="nav" px="md">
        <Group h="100%" gap="sm" wrap="nowrap">
          <Burger opened={menu} onClick={toggle} size="sm" color="#fff" aria-label="Navigation" />
          <Logo size={24} />
          <Text fw={600} c="#fff" className="clamp">
            {organization.name}
          </Text>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar className="nav">
        <Sidebar find={openPalette} showKeys={showKeys.open} toggleScheme={toggleScheme} onNavigate={close} />
      </AppShell.Navbar>
      <Suspense fallback={null}>
        <SessionToasts />
      </Suspense>
      {isDemo && (
        <Suspense fallback={null}>
          <DemoChecklist />
        </Suspense>
      )}
      <AppShell.Main id="content" tabIndex={-1} style={{ outline: "none" }}>
        <Container size={CONTENT_PX_MAX} px={0}>
          <Suspense fallback={<LoadingRows />}>
            <Outlet />
          </Suspense>
        </Container>
      </AppShell.Main>
      {keys && (
        <Suspense fallback={null}>
          <ShortcutsDialog onClose={showKeys.close} />
        </Suspense>
      )}
      {hasPalette && (
        <Suspense fallback={null}>
          <CommandPalette toggleScheme={toggleScheme} showKeys={showKeys.open} />
        </Suspense>
      )}
    </AppShell>
  );
}
