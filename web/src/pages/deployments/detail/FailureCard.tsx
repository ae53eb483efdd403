import { Card } from "@mantine/core";
import type { Deployment, Pipeline } from "@/api/types";
import { deploymentTargets } from "@/data/deploymentAccess";
import { useAccess } from "@/data/me";
import { may } from "@/data/permissions";
import type { StageStep } from "@/format/run";
import { AnalysisPanel } from "./analysis/AnalysisPanel";
import styles from "./deployment.module.css";
import { FailureStatement } from "./FailureStatement";
import { describeFailure, findFailure } from "./failure";

type Props = {
  org: string;
  deployment: Deployment;
  pipeline: Pipeline | undefined;
  /** The step shown below; its own failure is described before that of another step. */
  stageStep: StageStep | undefined;
  attempt: number | undefined;
  /** Called when a link into the log is clicked. */
  onLines: (lines: string) => void;
};

/** Why the deployment, or the step shown, failed: one statement, and how to fix it. */
export function FailureCard({ org, deployment, pipeline, stageStep, attempt, onLines }: Props) {
  const access = useAccess();
  const failure = findFailure(deployment, stageStep, attempt);
  if (!failure) return null;
  const targets = deploymentTargets(deployment, pipeline);
  const mayRead = targets.some(target => may(access, "analysis:read", target));
  const mayRun = targets.some(target => may(access, "analysis:run", target));
  const { step, shown } = failure;
  const statement = describeFailure(deployment, failure);
  return (
    <Card
      component="section"
      aria-label="Why it failed"
      padding="sm"
      className={styles.cause}
      data-banner="failure"
    >
      {step && mayRead ? (
        <AnalysisPanel
          key={`${step.id}/${shown?.number}`}
          org={org}
          deployment={deployment}
          pipeline={pipeline}
          stepId={step.id}
          attempt={shown?.number ?? 0}
          isLast={step.status === "failed" && shown === step.attempts.at(-1)}
          mayRun={mayRun}
          statement={statement}
          onLines={onLines}
        />
      ) : (
        <FailureStatement text={statement} />
      )}
    </Card>
  );
}
