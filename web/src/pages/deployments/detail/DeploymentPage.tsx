import { Button, Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconArrowBackUp, IconBan, IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useRef, useState } from "react";
import type { Deployment, Pipeline } from "@/api/types";
import { useNow } from "@/data/clock";
import { mayOperate, stageTargets } from "@/data/deploymentAccess";
import { deploymentApprovalsQuery, deploymentQuery } from "@/data/deployments";
import { useAccess, useMe } from "@/data/me";
import { environmentTarget, may } from "@/data/permissions";
import { pipelineQuery } from "@/data/pipelines";
import {
  elapsedSeconds,
  findInitialStep,
  formatTook,
  formatTrigger,
  isFinished,
  listStageSteps,
  type StageStep,
  workingSeconds,
} from "@/format/run";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { CommitId } from "@/ui/CommitId";
import { Link } from "@/ui/Link";
import { LoadingRows } from "@/ui/LoadingRows";
import { Page } from "@/ui/Page";
import { PullRequestName } from "@/ui/pullRequests/PullRequestName";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";
import { CancelDialog } from "../dialogs/CancelDialog";
import { RetryDialog } from "../dialogs/RetryDialog";
import { enteredStages, RollBackDialog } from "../dialogs/RollBackDialog";
import { BlockedByList } from "./BlockedByList";
import { DeploymentBanners } from "./DeploymentBanners";
import { StageList } from "./StageList";
import { StepPanel } from "./StepPanel";

const DeploymentGraph = lazy(() => import("./graph/DeploymentGraph"));

/** Fallback for missed events. */
const FALLBACK_POLL_MS = 10_000;

export function DeploymentPage() {
  const { org, deploymentId } = useParams({ from: "/o/$org/deployments/$deploymentId" });
  const deployment = useQuery({
    ...deploymentQuery(org, deploymentId),
    refetchInterval: query =>
      query.state.data && isFinished(query.state.data.status) ? false : FALLBACK_POLL_MS,
  });
  return (
    <QueryResult of={deployment}>
      {found => <DeploymentDetail key={found.id} org={org} deployment={found} />}
    </QueryResult>
  );
}

function DeploymentDetail({ org, deployment }: { org: string; deployment: Deployment }) {
  const pipeline = useQuery(pipelineQuery(org, deployment.pipelineId));
  const approvals = useQuery({
    ...deploymentApprovalsQuery(org, deployment.id),
    enabled: deployment.blockedBy.some(each => each.kind === "approval"),
  });
  const search = useSearch({ from: "/o/$org/deployments/$deploymentId" });
  const navigate = useNavigate({ from: "/o/$org/deployments/$deploymentId" });
  const auto = useFollowedStep(deployment);
  const stageStep =
    listStageSteps(deployment).find(({ step }) => step.id === search.step || step.step === search.step) ??
    auto;
  const selectStep = useCallback(
    (step: string) => navigate({ search: { step }, replace: true, resetScroll: false }),
    [navigate],
  );
  const pipelineId = pipeline.data?.slug ?? deployment.pipelineId;
  const name = deployment.envName ?? pipeline.data?.name ?? "Deployment";
  return (
    <Page
      title={`${name} #${deployment.number}`}
      lead={
        <DeploymentLead
          org={org}
          pipelineId={pipelineId}
          name={pipeline.data?.name}
          deployment={deployment}
        />
      }
      actions={<DeploymentActions org={org} deployment={deployment} pipeline={pipeline.data} />}
    >
      <DeploymentBanners org={org} deployment={deployment} />
      <BlockedByList
        org={org}
        pipelineId={pipelineId}
        pipeline={pipeline.data}
        deployment={deployment}
        approvals={approvals.data?.data ?? []}
      />
      <StagesView org={org} deployment={deployment} chosen={stageStep?.step.id} onChoose={selectStep} />
      {stageStep && (
        <StepPanel
          org={org}
          deployment={deployment}
          pipeline={pipeline.data}
          stageStep={stageStep}
          attempt={search.attempt ? Number(search.attempt) : undefined}
          view={{ lines: search.lines, q: search.q }}
          onAttempt={attempt =>
            navigate({
              search: { step: stageStep.step.id, attempt: String(attempt) },
              replace: true,
              resetScroll: false,
            })
          }
          onView={view =>
            navigate({
              search: { step: stageStep.step.id, attempt: search.attempt, ...view },
              replace: true,
              resetScroll: false,
            })
          }
        />
      )}
    </Page>
  );
}

/** The step to show while the user has chosen none. The step shown last stays when the deployment succeeds. */
function useFollowedStep(deployment: Deployment): StageStep | undefined {
  const shown = useRef<string>(undefined);
  const last = listStageSteps(deployment).find(({ step }) => step.id === shown.current);
  const hasLog = last && last.step.attempts.length > 0;
  const found = deployment.status === "succeeded" && hasLog ? last : findInitialStep(deployment);
  shown.current = found?.step.id;
  return found;
}

type LeadProps = { org: string; pipelineId: string; name: string | undefined; deployment: Deployment };

function DeploymentLead({ org, pipelineId, name, deployment }: LeadProps) {
  const now = useNow();
  const took = elapsedSeconds(deployment, now);
  const { commitId, resolvedCommitId } = deployment;
  return (
    <Stack gap={2}>
      <div className="wrap">
        <CommitId id={commitId} />
        {resolvedCommitId && !resolvedCommitId.startsWith(commitId.toLowerCase()) && (
          <>
            {" "}
            at <CommitId id={resolvedCommitId} />
          </>
        )}{" "}
        of{" "}
        <Link to="/o/$org/pipelines/$pipelineId" params={{ org, pipelineId }} inherit underline="always">
          {name ?? "the pipeline"}
        </Link>
        , {formatTrigger(deployment)} <RelativeTime at={deployment.createdAt} />
        {took !== null &&
          `, ${isFinished(deployment.status) ? "took" : "running for"} ${formatTook(took, workingSeconds(deployment, now))}`}
      </div>
      {deployment.reason && <div className="wrap">“{deployment.reason}”</div>}
      {deployment.retryOf && (
        <div>
          Retry of{" "}
          <Link
            to="/o/$org/deployments/$deploymentId"
            params={{ org, deploymentId: deployment.retryOf }}
            inherit
            underline="always"
          >
            an earlier deployment
          </Link>
        </div>
      )}
      {deployment.envName && (
        <div>
          In{" "}
          <Link
            to="/o/$org/environments/$pipelineId/$envName"
            params={{ org, pipelineId, envName: deployment.envName }}
            inherit
            underline="always"
          >
            {deployment.envName}
          </Link>
          {deployment.fence != null && `, fencing token ${deployment.fence}`}
          {deployment.pullRequest && <PullRequestName of={deployment.pullRequest} />}
        </div>
      )}
    </Stack>
  );
}

type ActionsProps = { org: string; deployment: Deployment; pipeline: Pipeline | undefined };

function DeploymentActions({ org, deployment, pipeline }: ActionsProps) {
  const [open, setOpen] = useState<"cancel" | "rollback" | null>(null);
  const [retried, setRetried] = useState<string | null>(null);
  const access = useAccess();
  const me = useMe().user.id;
  const close = () => setOpen(null);
  const failed = deployment.stages.find(each => each.status === "failed");
  const mayBypass = stageTargets(pipeline).every(stage => may(access, "gates:bypass", stage));
  // A reset has no session to retry it in.
  const mayRetry =
    failed &&
    deployment.trigger !== "reset" &&
    (!deployment.bypass || mayBypass) &&
    mayOperate(access, deployment, pipeline, { from: failed.name });
  const revertible = enteredStages(deployment).filter(stage =>
    mayOperate(access, deployment, pipeline, { only: stage }),
  );
  const mayCancel =
    mayOperate(access, deployment, pipeline, "all") &&
    (deployment.envName == null ||
      deployment.actor.id === me ||
      may(access, "environments:release_others", environmentTarget(pipeline?.slug, deployment.envName)));
  const isStoppable = !isFinished(deployment.status) && deployment.status !== "cancelling";
  return (
    <>
      <StatusBadge status={RUN_STATUS_STYLE[deployment.status]} size="lg" />
      {mayRetry && (
        <Button
          variant="default"
          leftSection={<IconRefresh size={16} />}
          onClick={() => setRetried(failed.name)}
        >
          Retry
        </Button>
      )}
      {revertible.length > 0 && (
        <Button
          variant="default"
          leftSection={<IconArrowBackUp size={16} />}
          onClick={() => setOpen("rollback")}
        >
          Roll back
        </Button>
      )}
      {isStoppable && mayCancel && (
        <Button variant="default" leftSection={<IconBan size={16} />} onClick={() => setOpen("cancel")}>
          Cancel
        </Button>
      )}
      {open === "cancel" && <CancelDialog org={org} deployment={deployment} onClose={close} />}
      {retried !== null && (
        <RetryDialog org={org} deployment={deployment} stage={retried} onClose={() => setRetried(null)} />
      )}
      {open === "rollback" && (
        <RollBackDialog org={org} deployment={deployment} stages={revertible} onClose={close} />
      )}
    </>
  );
}

type StagesViewProps = {
  org: string;
  deployment: Deployment;
  chosen: string | undefined;
  onChoose: (stepId: string) => void;
};

/** Stages and steps as a graph, or as a list on narrow screens. The user can switch. */
function StagesView({ org, deployment, chosen, onChoose }: StagesViewProps) {
  const isNarrow = useMediaQuery("(max-width: 48em)", window.innerWidth < 768);
  const [wanted, setWanted] = useState<"graph" | "list" | null>(null);
  const shown = wanted ?? (isNarrow ? "list" : "graph");
  if (deployment.stages.length === 0) {
    return (
      <Text c="dimmed">
        {isFinished(deployment.status) ? "No stage ran." : "Stages appear when the deployment starts."}
      </Text>
    );
  }
  return (
    <Stack gap="xs">
      <Group justify="flex-end">
        <SegmentedControl
          size="xs"
          aria-label="View of stages and steps"
          value={shown}
          onChange={value => setWanted(value === "list" ? "list" : "graph")}
          data={[
            { value: "graph", label: "Graph" },
            { value: "list", label: "List" },
          ]}
        />
      </Group>
      {shown === "graph" ? (
        <Suspense fallback={<LoadingRows rows={1} height={240} />}>
          <DeploymentGraph stages={deployment.stages} chosen={chosen} onChoose={onChoose} />
        </Suspense>
      ) : (
        <StageList org={org} stages={deployment.stages} chosen={chosen} onChoose={onChoose} />
      )}
    </Stack>
  );
}
