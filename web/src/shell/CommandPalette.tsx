import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight, type SpotlightActionData } from "@mantine/spotlight";
import { IconAnchor, IconMoon, IconRoute, IconSearch, IconSettings } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { deployedQuery } from "@/data/deployed";
import { useAccess, useMe, useOrg, usePermissionSomewhere } from "@/data/me";
import { pipelinesQuery } from "@/data/pipelines";
import { formatHolder } from "@/format/holder";
import { NAV_ITEMS, SETTINGS_TABS, visiblePages } from "./navigation";

const SHOWN_MAX = 12;
const TYPED_MS = 150;

/** Command palette: pages, pipelines, shared environments and organizations. */
export default function CommandPalette({ toggleScheme }: { toggleScheme: () => void }) {
  const org = useOrg();
  const me = useMe();
  const access = useAccess();
  const mayRead = usePermissionSomewhere("pipelines:read");
  const navigate = useNavigate();
  const [opened, setOpened] = useState(true);
  const [typed, setTyped] = useState("");
  const [search] = useDebouncedValue(typed.trim(), TYPED_MS);
  const pages = useInfiniteQuery({ ...deployedQuery(org), enabled: opened && mayRead });
  const named = useQuery({ ...pipelinesQuery(org, { search }), enabled: opened && mayRead && search !== "" });
  const deployed = pages.data?.pages.flatMap(page => page.data) ?? [];
  // Only the first pages are loaded; the server searches the others.
  const others = (named.data?.data ?? []).filter(each => !deployed.some(it => it.pipelineId === each.id));
  const found = [
    ...deployed,
    ...others.map(each => ({
      pipelineId: each.id,
      slug: each.slug,
      name: each.name,
      environments: each.environments.map(envName => ({
        environmentId: `${each.id}/${envName}`,
        envName,
        holder: undefined,
        isKnown: false,
      })),
    })),
  ];
  const pageActions: SpotlightActionData[] = [
    ...visiblePages(access, NAV_ITEMS).map(item => ({
      id: item.to,
      label: item.label,
      leftSection: <item.icon size={18} />,
      onClick: () => navigate({ to: item.to, params: { org } }),
    })),
    ...visiblePages(access, SETTINGS_TABS).map(item => ({
      id: item.to,
      label: `Organization Settings: ${item.label}`,
      leftSection: <IconSettings size={18} />,
      onClick: () => navigate({ to: item.to, params: { org } }),
    })),
    { id: "scheme", label: "Toggle theme", leftSection: <IconMoon size={18} />, onClick: toggleScheme },
  ];
  const pipelines = found.map(each => ({
    id: each.pipelineId,
    label: each.name,
    description: each.slug,
    leftSection: <IconRoute size={18} />,
    onClick: () => navigate({ to: "/o/$org/pipelines/$pipelineId", params: { org, pipelineId: each.slug } }),
  }));
  const environments = found.flatMap(each =>
    each.environments.map(environment => ({
      id: environment.environmentId,
      label: environment.envName,
      description: `${each.name}${"isKnown" in environment ? "" : environment.holder ? `, held by ${formatHolder({ holder: environment.holder, contact: environment.contact })}` : ", free"}`,
      leftSection: <IconAnchor size={18} />,
      onClick: () =>
        navigate({
          to: "/o/$org/environments/$pipelineId/$envName",
          params: { org, pipelineId: each.slug, envName: environment.envName },
        }),
    })),
  );
  const organizations = me.organizations
    .filter(each => each.slug !== org)
    .map(each => ({
      id: each.id,
      label: `Switch to ${each.name}`,
      onClick: () => navigate({ to: "/o/$org", params: { org: each.slug } }),
    }));

  return (
    <Spotlight
      actions={[
        { group: "Go to", actions: pageActions },
        { group: "Pipelines", actions: pipelines },
        { group: "Shared environments", actions: environments },
        ...(organizations.length > 0 ? [{ group: "Organizations", actions: organizations }] : []),
      ]}
      query={typed}
      onQueryChange={setTyped}
      onSpotlightOpen={() => setOpened(true)}
      shortcut={null}
      limit={SHOWN_MAX}
      scrollable
      maxHeight={420}
      highlightQuery
      nothingFound="No results"
      searchProps={{
        leftSection: <IconSearch size={18} />,
        placeholder: "Search…",
        "aria-label": "Search",
      }}
    />
  );
}
