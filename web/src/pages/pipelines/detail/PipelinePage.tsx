import { Alert, Button, Group, Stack, Tabs, Text } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconAlertTriangle, IconPlayerPause, IconPlayerPlay, IconRocket } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import type { Pipeline } from "@/api/types";
import { pendingApprovalsQuery } from "@/data/approvals";
import { stageTargets } from "@/data/deploymentAccess";
import { pipelineDeploymentsQuery } from "@/data/deployments";
import { useAccess, usePermissionSomewhere } from "@/data/me";
import { listReadableEnvironments, may, pipelineTarget } from "@/data/permissions";
import { pipelineQuery } from "@/data/pipelines";
import { findStageOccupants } from "@/data/stageOccupants";
import { PAUSED_STATUS_STYLE } from "@/theme/status";
import { LoadingRows } from "@/ui/LoadingRows";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";
import { useLinkedAction } from "@/ui/useLinkedAction";
import { DeployPipelineDialog } from "../dialogs/DeployPipelineDialog";
import { PauseDialog } from "../dialogs/PauseDialog";
import { DeploymentList } from "./DeploymentList";
import { EnvironmentList } from "./EnvironmentList";
import { StageCards } from "./StageCards";

const StageGraph = lazy(() => import("./StageGraph"));
const DefinitionTab = lazy(() => import("./definition/DefinitionTab"));

const TABS = ["deployments", "environments", "definition"] as const;

export function PipelinePage() {
  const { org, pipelineId } = useParams({ from: "/o/$org/pipelines/$pipelineId" });
  const pipeline = useQuery(pipelineQuery(org, pipelineId));
  return <QueryResult of={pipeline}>{found => <PipelineDetail org={org} pipeline={found} />}</QueryResult>;
}

type Props = { org: string; pipeline: Pipeline };

function PipelineDetail({ org, pipeline }: Props) {
  const { tab } = useSearch({ from: "/o/$org/pipelines/$pipelineId" });
  const navigate = useNavigate({ from: "/o/$org/pipelines/$pipelineId" });
  const shown = TABS.find(each => each === tab) ?? "deployments";
  const deployments = useInfiniteQuery(pipelineDeploymentsQuery(org, pipeline.slug));
  const mayReadApprovals = usePermissionSomewhere("approvals:read");
  const approvals = useQuery({ ...pendingApprovalsQuery(org), enabled: mayReadApprovals });
  const environmentCount = listReadableEnvironments(useAccess(), pipeline).length;
  return (
    <Page
      title={pipeline.name}
      lead={<PipelineLead pipeline={pipeline} />}
      actions={<PipelineActions org={org} pipeline={pipeline} />}
    >
      <PipelineBanners pipeline={pipeline} />
      <PipelineStages
        org={org}
        pipeline={pipeline}
        occupants={findStageOccupants(
          deployments.data?.pages.flatMap(page => page.data) ?? [],
          approvals.data?.data,
        )}
      />
      <Tabs
        value={shown}
        onChange={to =>
          navigate({
            search: now => ({ ...now, tab: to === "deployments" ? undefined : (to ?? undefined) }),
            replace: true,
            resetScroll: false,
          })
        }
        keepMounted={false}
      >
        <Tabs.List aria-label="Pipeline sections" className="scrolling-tabs">
          <Tabs.Tab value="deployments">Deployments</Tabs.Tab>
          <Tabs.Tab value="environments">
            Environments{environmentCount > 0 && ` (${environmentCount})`}
          </Tabs.Tab>
          <Tabs.Tab value="definition">Definition</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="deployments" pt="md">
          <DeploymentList org={org} pipeline={pipeline} />
        </Tabs.Panel>
        <Tabs.Panel value="environments" pt="md">
          <EnvironmentList org={org} pipeline={pipeline} />
        </Tabs.Panel>
        <Tabs.Panel value="definition" pt="md">
          <Suspense fallback={<LoadingRows rows={1} height={320} />}>
            <DefinitionTab org={org} pipeline={pipeline} />
          </Suspense>
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

function PipelineLead({ pipeline }: { pipeline: Pipeline }) {
  const { tracks, repository, slug } = pipeline;
  return (
    <span className="wrap">
      <code>{slug}</code>
      {tracks && `, tracks ${tracks}`}
      {repository && ` in ${repository.url}`}
    </span>
  );
}

function PipelineActions({ org, pipeline }: Props) {
  const [open, setOpen] = useState<"deploy" | "pause" | null>(null);
  useLinkedAction(["deploy"], setOpen);
  const access = useAccess();
  const mayDeploy = stageTargets(pipeline).every(stage => may(access, "stages:deploy", stage));
  const mayPause = may(access, "pipelines:operate", pipelineTarget(pipeline.slug));
  const isPaused = hasPause(pipeline);
  return (
    <>
      {isPaused && <StatusBadge status={PAUSED_STATUS_STYLE} size="lg" />}
      {mayPause && (
        <Button
          variant="default"
          leftSection={isPaused ? <IconPlayerPlay size={16} /> : <IconPlayerPause size={16} />}
          onClick={() => setOpen("pause")}
        >
          {isPaused ? "Resume" : "Pause new deployments"}
        </Button>
      )}
      {mayDeploy && pipeline.stages.length > 0 && !pipeline.retiredAt && (
        <Button leftSection={<IconRocket size={16} />} onClick={() => setOpen("deploy")}>
          Deploy
        </Button>
      )}
      {open === "deploy" && (
        <DeployPipelineDialog org={org} pipeline={pipeline} onClose={() => setOpen(null)} />
      )}
      {open === "pause" && (
        <PauseDialog org={org} pipeline={pipeline} pause={!isPaused} onClose={() => setOpen(null)} />
      )}
    </>
  );
}

/** Whether the pipeline is paused by a user, or a stage by a rollback. Resuming ends both. */
function hasPause(pipeline: Pipeline): boolean {
  return pipeline.status === "stopped" || pipeline.stages.some(stage => stage.paused);
}

function PipelineBanners({ pipeline }: { pipeline: Pipeline }) {
  const { stopped, retiredAt, warnings, stages } = pipeline;
  if (!hasPause(pipeline) && !retiredAt && warnings.length === 0) return null;
  return (
    <Stack gap="xs">
      {stopped && (
        <Alert color="lantern" radius="lg" icon={<IconPlayerPause />} title={`Paused by ${stopped.by.name}`}>
          <Text size="sm" className="wrap">
            {stopped.reason && `“${stopped.reason}”, `}
            <RelativeTime at={stopped.at} />. Running steps finish, no further step starts, and new
            deployments wait.
          </Text>
        </Alert>
      )}
      {stages.map(
        ({ name, paused }) =>
          paused && (
            <Alert
              key={name}
              color="lantern"
              radius="lg"
              icon={<IconPlayerPause />}
              title={`New deployments to ${name} are paused`}
            >
              <Text size="sm" className="wrap">
                {paused.by.name} rolled it back <RelativeTime at={paused.at} />
                {paused.reason && `: “${paused.reason}”`}. Resume the pipeline to allow them again.
              </Text>
            </Alert>
          ),
      )}
      {retiredAt && (
        <Alert color="gray" radius="lg" icon={<IconAlertTriangle />} title="Removed from its repository">
          <Text size="sm">
            The definition was removed <RelativeTime at={retiredAt} />. No new deployments start.
          </Text>
        </Alert>
      )}
      {warnings.map(warning => (
        <Alert key={warning.code + warning.detail} color="lantern" radius="lg" icon={<IconAlertTriangle />}>
          <Text size="sm" className="wrap">
            {warning.detail}
          </Text>
        </Alert>
      ))}
    </Stack>
  );
}

function PipelineStages(props: Props & { occupants: ReturnType<typeof findStageOccupants> }) {
  const isNarrow = useMediaQuery("(max-width: 62em)", window.innerWidth < 992);
  if (props.pipeline.stages.length === 0) {
    return (
      <Group>
        <Text c="dimmed">This pipeline has no stages. Deploy to its shared environments.</Text>
      </Group>
    );
  }
  if (isNarrow) return <StageCards {...props} />;
  return (
    <Suspense fallback={<LoadingRows rows={1} height={160} />}>
      <StageGraph {...props} />
    </Suspense>
  );
}
