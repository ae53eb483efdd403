import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight, type SpotlightActionData } from "@mantine/spotlight";
import {
  IconAnchor,
  IconBolt,
  IconGitCommit,
  IconKeyboard,
  IconMoon,
  IconRocket,
  IconRoute,
  IconSearch,
  IconSettings,
  IconUser,
} from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { pendingApprovalsQuery } from "@/data/approvals";
import { deployedQuery } from "@/data/deployed";
import { deploymentsOfCommitQuery, newestDeploymentsQuery } from "@/data/deployments";
import { useAccess, useMe, useOrg, usePermissionSomewhere } from "@/data/me";
import { membersQuery } from "@/data/members";
import { pipelinesQuery } from "@/data/pipelines";
import { formatCommit } from "@/format/commit";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { NAV_ITEMS, SETTINGS_TABS, visiblePages } from "./navigation";
import { listPaletteActions } from "./paletteActions";
import { joinDeployments, listPaletteCommits } from "./paletteCommits";
import { filterPalette } from "./paletteFilter";
import { listPalettePipelines } from "./palettePipelines";

const SHOWN_MAX = 20;
/** Actions shown before anything is typed. */
const ACTIONS_AT_FIRST_MAX = 5;
const TYPED_MS = 150;
/** Names of branches and tags, and hashes, that are long enough to ask the server for. */
const COMMIT_NAME = /^[\w./-]{4,}$/;

type Props = { toggleScheme: () => void; showKeys: () => void };

/** Command palette: actions, pages, pipelines, environments, commits, deployments, people and organizations. */
export default function CommandPalette({ toggleScheme, showKeys }: Props) {
  const org = useOrg();
  const me = useMe();
  const access = useAccess();
  const mayRead = usePermissionSomewhere("pipelines:read");
  const mayReadDeployments = usePermissionSomewhere("deployments:read");
  const mayReadApprovals = usePermissionSomewhere("approvals:read");
  const navigate = useNavigate();
  const [opened, setOpened] = useState(true);
  const [typed, setTyped] = useState("");
  const [search] = useDebouncedValue(typed.trim(), TYPED_MS);
  const isSearching = opened && search !== "";
  const pages = useInfiniteQuery({ ...deployedQuery(org), enabled: opened && mayRead });
  const named = useQuery({ ...pipelinesQuery(org, { search }), enabled: isSearching && mayRead });
  const approvals = useQuery({ ...pendingApprovalsQuery(org), enabled: opened && mayReadApprovals });
  const members = useQuery({ ...membersQuery(org), enabled: isSearching });
  const recent = useQuery({ ...newestDeploymentsQuery(org), enabled: isSearching && mayReadDeployments });
  const ofCommit = useQuery({
    ...deploymentsOfCommitQuery(org, search),
    enabled: isSearching && mayReadDeployments && COMMIT_NAME.test(search),
  });
  // The list selects its first entry when the text changes, but not when entries arrive or change later.
  useEffect(() => {
    if (!isSearching) return;
    const selectFirst = () => {
      if (!document.querySelector("[data-action][data-selected]"))
        document.querySelector("[data-action]")?.setAttribute("data-selected", "true");
    };
    selectFirst();
    const observer = new MutationObserver(selectFirst);
    const watched = { childList: true, subtree: true, attributes: true, attributeFilter: ["data-selected"] };
    observer.observe(document.body, watched);
    return () => observer.disconnect();
  }, [isSearching]);
  const deployed = pages.data?.pages.flatMap(page => page.data) ?? [];
  const found = listPalettePipelines(access, deployed, named.data?.data ?? []);
  const actions: SpotlightActionData[] = [
    ...listPaletteActions(access, me.user.id, org, deployed, approvals.data?.data ?? []).map(each => ({
      id: each.id,
      label: each.label,
      description: each.description,
      leftSection: <IconBolt size={18} />,
      onClick: () => navigate({ to: each.to, search: { do: each.do, approval: each.approval } }),
    })),
    { id: "scheme", label: "Toggle theme", leftSection: <IconMoon size={18} />, onClick: toggleScheme },
    {
      id: "keys",
      label: "Show keyboard shortcuts",
      leftSection: <IconKeyboard size={18} />,
      onClick: showKeys,
    },
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
    {
      id: "profile",
      label: "Your profile",
      leftSection: <IconUser size={18} />,
      onClick: () => navigate({ to: "/profile" }),
    },
  ];
  const pipelines = found.map(each => ({
    id: each.id,
    label: each.name,
    description: each.slug,
    leftSection: <IconRoute size={18} />,
    onClick: () => navigate({ to: "/o/$org/pipelines/$pipelineId", params: { org, pipelineId: each.slug } }),
  }));
  const environments = found.flatMap(each =>
    each.environments.map(({ id, envName, state }) => ({
      id,
      label: envName,
      description: state ? `${each.name}, ${state}` : each.name,
      leftSection: <IconAnchor size={18} />,
      onClick: () =>
        navigate({
          to: "/o/$org/environments/$pipelineId/$envName",
          params: { org, pipelineId: each.slug, envName },
        }),
    })),
  );
  const openDeployment = (deploymentId: string) =>
    navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId } });
  const knownDeployments = joinDeployments(recent.data?.data ?? [], ofCommit.data?.data ?? []);
  const commits = listPaletteCommits(knownDeployments).map(({ title, deploymentId, ...rest }) => ({
    ...rest,
    label: title,
    leftSection: <IconGitCommit size={18} />,
    onClick: () => openDeployment(deploymentId),
  }));
  const deployments = knownDeployments.map(each => {
    const name = deployed.find(it => it.pipelineId === each.pipelineId)?.name ?? "Deployment";
    return {
      id: each.id,
      label: `${name}${each.envName ? ` in ${each.envName}` : ""} #${each.number}`,
      description: `${RUN_STATUS_STYLE[each.status].label}, ${formatCommit(each.commitId)}, ${each.actor.name}`,
      keywords: [each.commitId, each.resolvedCommitId ?? ""],
      leftSection: <IconRocket size={18} />,
      onClick: () => openDeployment(each.id),
    };
  });
  const people = (members.data?.data ?? []).map(each => ({
    id: each.id,
    label: each.name,
    description: `${each.email}, ${each.role}`,
    leftSection: <IconUser size={18} />,
    onClick: () => navigate({ to: "/o/$org/settings/members/$userId", params: { org, userId: each.id } }),
  }));
  const organizations = me.organizations
    .filter(each => each.slug !== org)
    .map(each => ({
      id: each.id,
      label: `Switch to ${each.name}`,
      onClick: () => navigate({ to: "/o/$org", params: { org: each.slug } }),
    }));

  return (
    <Spotlight
      actions={(isSearching
        ? [
            { group: "Pipelines", actions: pipelines },
            { group: "Shared environments", actions: environments },
            { group: "Go to", actions: pageActions },
            { group: "Actions", actions },
            { group: "Commits", actions: commits },
            { group: "Deployments", actions: deployments },
            { group: "People", actions: people },
            { group: "Organizations", actions: organizations },
          ]
        : [
            { group: "Actions", actions: actions.slice(0, ACTIONS_AT_FIRST_MAX) },
            { group: "Go to", actions: pageActions },
          ]
      ).filter(each => each.actions.length > 0)}
      filter={filterPalette}
      query={typed}
      onQueryChange={setTyped}
      onSpotlightOpen={() => setOpened(true)}
      shortcut={null}
      limit={SHOWN_MAX}
      scrollable
      maxHeight={420}
      highlightQuery
      attributes={{ content: { "aria-label": "Command palette" } }}
      scrollAreaProps={{ viewportProps: { tabIndex: 0, "aria-label": "Results" } }}
      nothingFound="No results"
      searchProps={{
        leftSection: <IconSearch size={18} />,
        placeholder: "Search, or type an action such as “claim”",
        "aria-label": "Search",
      }}
    />
  );
}
