import { Alert, Button, Group, Stack, Tabs, Text } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconAlertTriangle, IconPlayerPause, IconPlayerPlay, IconRocket } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import type { Pipeline } from "@/api/types";
import { pipelineDeployments } from "@/data/deployments";
import { useMay } from "@/data/me";
import { pipelineQuery } from "@/data/pipelines";
import { PAUSED_STATUS_STYLE } from "@/theme/status";
import { Loading } from "@/ui/Loading";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { Status } from "@/ui/Status";
import { When } from "@/ui/When";
import { DeployDialog } from "../dialogs/DeployDialog";
import { PauseDialog } from "../dialogs/PauseDialog";
import { Deployments } from "./Deployments";
import { Environments } from "./Environments";
import { insideStages } from "./inside";
import { StageCards } from "./StageCards";

const StageGraph = lazy(() => import("./StageGraph"));
const DefinitionTab = lazy(() => import("./definition/DefinitionTab"));

const TABS = ["deployments", "environments", "definition"] as const;

export function PipelinePage() {
  const { org, pipelineId } = useParams({ from: "/o/$org/pipelines/$pipelineId" });
  const pipeline = useQuery(pipelineQuery(org, pipelineId));
  return <Query of={pipeline}>{found => <Shown org={org} pipeline={found} />}</Query>;
}

type Props = { org: string; pipeline: Pipeline };

function Shown({ org, pipeline }: Props) {
  const { tab } = useSearch({ from: "/o/$org/pipelines/$pipelineId" });
  const navigate = useNavigate({ from: "/o/$org/pipelines/$pipelineId" });
  const shown = TABS.find(each => each === tab) ?? "deployments";
  const deployments = useInfiniteQuery(pipelineDeployments(org, pipeline.slug));
  return (
    <Page
      title={pipeline.name}
      lead={<Lead pipeline={pipeline} />}
      actions={<Actions org={org} pipeline={pipeline} />}
    >
      <Banners pipeline={pipeline} />
      <Stages
        org={org}
        pipeline={pipeline}
        inside={insideStages(deployments.data?.pages.flatMap(page => page.data) ?? [])}
      />
      <Tabs
        value={shown}
        onChange={to =>
          navigate({
            search: { tab: to === "deployments" ? undefined : (to ?? undefined) },
            replace: true,
            resetScroll: false,
          })
        }
        keepMounted={false}
      >
        <Tabs.List aria-label="Pipeline sections">
          <Tabs.Tab value="deployments">Deployments</Tabs.Tab>
          <Tabs.Tab value="environments">
            Environments{pipeline.environments.length > 0 && ` (${pipeline.environments.length})`}
          </Tabs.Tab>
          <Tabs.Tab value="definition">Definition</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="deployments" pt="md">
          <Deployments org={org} pipeline={pipeline} of={deployments} />
        </Tabs.Panel>
        <Tabs.Panel value="environments" pt="md">
          <Environments org={org} pipeline={pipeline} />
        </Tabs.Panel>
        <Tabs.Panel value="definition" pt="md">
          <Suspense fallback={<Loading rows={1} height={320} />}>
            <DefinitionTab org={org} pipeline={pipeline} />
          </Suspense>
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

function Lead({ pipeline }: { pipeline: Pipeline }) {
  const { tracks, repository, slug } = pipeline;
  return (
    <span className="wrap">
      <code>{slug}</code>
      {tracks && `, tracks ${tracks}`}
      {repository && ` in ${repository.url}`}
    </span>
  );
}

function Actions({ org, pipeline }: Props) {
  const [open, setOpen] = useState<"deploy" | "pause" | null>(null);
  const mayDeploy = useMay("deployments:operate");
  const mayOperate = useMay("pipelines:operate");
  const isPaused = isHeld(pipeline);
  return (
    <>
      {isPaused && <Status status={PAUSED_STATUS_STYLE} size="lg" />}
      {mayOperate && (
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
      {open === "deploy" && <DeployDialog org={org} pipeline={pipeline} onClose={() => setOpen(null)} />}
      {open === "pause" && (
        <PauseDialog org={org} pipeline={pipeline} pause={!isPaused} onClose={() => setOpen(null)} />
      )}
    </>
  );
}

/** Whether the pipeline is paused by a user, or a stage by a rollback. Resuming ends both. */
function isHeld(pipeline: Pipeline): boolean {
  return pipeline.status === "stopped" || pipeline.stages.some(stage => stage.paused);
}

function Banners({ pipeline }: { pipeline: Pipeline }) {
  const { stopped, retiredAt, warnings, stages } = pipeline;
  if (!isHeld(pipeline) && !retiredAt && warnings.length === 0) return null;
  return (
    <Stack gap="xs">
      {stopped && (
        <Alert color="lantern" radius="lg" icon={<IconPlayerPause />} title={`Paused by ${stopped.by.name}`}>
          <Text size="sm" className="wrap">
            {stopped.reason && `“${stopped.reason}”, `}
            <When at={stopped.at} />. Running steps finish, no further step starts, and new deployments wait.
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
                {paused.by.name} rolled it back <When at={paused.at} />
                {paused.reason && `: “${paused.reason}”`}. Resume the pipeline to allow them again.
              </Text>
            </Alert>
          ),
      )}
      {retiredAt && (
        <Alert color="gray" radius="lg" icon={<IconAlertTriangle />} title="Removed from its repository">
          <Text size="sm">
            The definition was removed <When at={retiredAt} />. No new deployments start.
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

function Stages(props: Props & { inside: ReturnType<typeof insideStages> }) {
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
    <Suspense fallback={<Loading rows={1} height={160} />}>
      <StageGraph {...props} />
    </Suspense>
  );
}
