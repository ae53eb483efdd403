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
import { useFollow } from "@/data/live";
import { useMe, useOrg, useOrganization } from "@/data/me";
import { Loading } from "@/ui/Loading";
import { useKeys } from "./keys";
import { Logo } from "./Logo";
import { Nav } from "./Nav";
import { PageProblem } from "./PageProblem";
import { PLACES } from "./places";
import { remember } from "./remembered";
import { useSessionToasts } from "./sessionToasts";

const Checklist = lazy(() => import("./Checklist"));
const KeyMap = lazy(() => import("./KeyMap"));
const Palette = lazy(() => import("./Palette"));

/** Layout of an organization's pages: navigation, command palette, keyboard shortcuts and the event stream. */
export function Shell() {
  const org = useOrg();
  const organization = useOrganization();
  const isDemo = useMe().demo != null;
  const navigate = useNavigate();
  const [menu, { toggle, close }] = useDisclosure();
  const [keys, showKeys] = useDisclosure();
  const [paletteWanted, setPaletteWanted] = useState(false);
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const toggleScheme = () => setColorScheme(scheme === "dark" ? "light" : "dark");

  useFollow(org);
  useSessionToasts();
  useEffect(() => {
    if (organization) remember(organization.slug);
  }, [organization]);

  const find = () => {
    setPaletteWanted(true);
    import("@mantine/spotlight").then(({ spotlight }) => spotlight.open());
  };
  useHotkeys([["mod+K", find]], []);
  useKeys({
    "?": showKeys.open,
    t: toggleScheme,
    "/": () => document.querySelector<HTMLInputElement>("[data-page-search]")?.focus(),
    ...Object.fromEntries(
      PLACES.map(place => [`g ${place.key}`, () => navigate({ to: place.to, params: { org } })]),
    ),
  });

  if (!organization) return <PageProblem />;
  return (
    <AppShell
      navbar={{ width: 240, breakpoint: "sm", collapsed: { mobile: !menu } }}
      header={{ height: { base: 52, sm: 0 } }}
      padding={{ base: "md", sm: "xl" }}
    >
      <a className="skip-link" href="#content">
        Skip to content
      </a>
      <AppShell.Header hiddenFrom="sm" className="nav" px="md">
        <Group h="100%" gap="sm" wrap="nowrap">
          <Burger opened={menu} onClick={toggle} size="sm" color="#fff" aria-label="Navigation" />
          <Logo size={24} />
          <Text fw={650} c="#fff" className="clamp">
            {organization.name}
          </Text>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar className="nav">
        <Nav find={find} showKeys={showKeys.open} toggleScheme={toggleScheme} onNavigate={close} />
      </AppShell.Navbar>
      {isDemo && (
        <Suspense fallback={null}>
          <Checklist />
        </Suspense>
      )}
      <AppShell.Main id="content" tabIndex={-1} style={{ outline: "none" }}>
        <Container size="xl" px={0}>
          <Suspense fallback={<Loading />}>
            <Outlet />
          </Suspense>
        </Container>
      </AppShell.Main>
      {keys && (
        <Suspense fallback={null}>
          <KeyMap onClose={showKeys.close} />
        </Suspense>
      )}
      {paletteWanted && (
        <Suspense fallback={null}>
          <Palette toggleScheme={toggleScheme} />
        </Suspense>
      )}
    </AppShell>
  );
}
