import { Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useLocation, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useRef, useState } from "react";
import type { Deployment } from "@/api/types";
import { deploymentApprovalsQuery, deploymentQuery } from "@/data/deployments";
import { pipelineQuery } from "@/data/pipelines";
import { findInitialStep, isFinished, listStageSteps, type StageStep } from "@/format/run";
import { QueryResult } from "@/ui/QueryResult";
import { BlockedByList } from "./BlockedByList";
import { DeploymentActions } from "./DeploymentActions";
import { DeploymentBanners } from "./DeploymentBanners";
import { DeploymentHeader } from "./DeploymentHeader";
import styles from "./deployment.module.css";
import { FailureCard } from "./FailureCard";
import { parseRange } from "./log/range";
import type { LineTarget } from "./log/useScrollToLines";
import { StepPanel } from "./StepPanel";
import { StepsPane, type StepsView } from "./steps/StepsPane";

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
  // Links written by hand, as for a line of a file on a forge: `#L10-L20`.
  const hash = useLocation({ select: location => location.hash });
  const lines = search.lines ?? (parseRange(hash) ? hash : undefined);
  const auto = useFollowedStep(deployment);
  const steps = listStageSteps(deployment);
  const stageStep = steps.find(({ step }) => step.id === search.step || step.step === search.step) ?? auto;
  const selectStep = useCallback(
    (step: string) => navigate({ search: { step }, replace: true, resetScroll: false }),
    [navigate],
  );
  const [view, setView] = useState<StepsView>("list");
  const [jump, setJump] = useState<LineTarget | null>(null);
  const attempt = search.attempt ? Number(search.attempt) : undefined;
  return (
    <Stack gap="md">
      <DeploymentHeader
        org={org}
        pipelineId={pipeline.data?.slug ?? deployment.pipelineId}
        pipelineName={pipeline.data?.name}
        deployment={deployment}
        actions={<DeploymentActions org={org} deployment={deployment} pipeline={pipeline.data} />}
      />
      <DeploymentBanners org={org} deployment={deployment} />
      <FailureCard
        org={org}
        deployment={deployment}
        pipeline={pipeline.data}
        stageStep={stageStep}
        attempt={attempt}
        onLines={lines => setJump({ lines })}
      />
      <BlockedByList
        org={org}
        pipelineId={pipeline.data?.slug ?? deployment.pipelineId}
        pipeline={pipeline.data}
        deployment={deployment}
        approvals={approvals.data?.data ?? []}
      />
      {(steps.length > 0 || (deployment.stages.length > 0 && !isFinished(deployment.status))) && (
        <div className={styles.split} data-view={view}>
          <section className={styles.side} aria-label="Steps">
            <StepsPane
              org={org}
              deployment={deployment}
              view={view}
              chosen={stageStep?.step.id}
              onView={setView}
              onChoose={selectStep}
            />
          </section>
          <div className={styles.main}>
            {stageStep && (
              <StepPanel
                org={org}
                deployment={deployment}
                stageStep={stageStep}
                attempt={attempt}
                view={{ lines, q: search.q }}
                jump={jump}
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
          </div>
        </div>
      )}
    </Stack>
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
