import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { memo, useMemo } from "react";
import type { Approval, Deployed, Stage } from "@/api/types";
import { pendingApprovalsQuery } from "@/data/approvals";
import { stageTargets } from "@/data/deploymentAccess";
import { deploymentsWithStatusQuery } from "@/data/deployments";
import { useAccess, useOrg, usePermissionSomewhere } from "@/data/me";
import { may } from "@/data/permissions";
import { findStageOccupants, type StageOccupant } from "@/data/stageOccupants";
import { CommitLine } from "@/ui/commits/CommitLine";
import { Link } from "@/ui/Link";
import { StatusIcon, StatusText } from "@/ui/StatusBadge";
import type { Density } from "./density";
import { HomeSection } from "./HomeSection";
import classes from "./home.module.css";
import { useOpenDialog } from "./OpenDialog";
import { RowList } from "./RowList";
import { findPromotion, stageStatus } from "./stageState";

const STAGES_SHOWN_MAX = 5;

type TableProps = { pipelines: Deployed[]; density: Density };

/** All pipelines: what is deployed to each stage, and what is in progress there. */
export function PipelineTable({ pipelines, density }: TableProps) {
  const activity = useActivity();
  if (pipelines.length === 0) return null;
  return (
    <HomeSection title="Pipelines" id="pipelines" count={pipelines.length}>
      <div className={classes.table} data-density={density}>
        <RowList label="Pipelines" items={pipelines} keyOf={each => each.pipelineId}>
          {each => <PipelineRow pipeline={each} activity={activity} isDense={density === "dense"} />}
        </RowList>
      </div>
    </HomeSection>
  );
}

type Activity = {
  occupants: Map<string, Map<string, StageOccupant>>;
  approvals: Map<string, Approval>;
};

/** Deployments in progress by pipeline and stage, and pending approvals by pipeline and stage. */
function useActivity(): Activity {
  const org = useOrg();
  const running = useQuery(deploymentsWithStatusQuery(org, "running")).data?.data;
  const waiting = useQuery(deploymentsWithStatusQuery(org, "waiting")).data?.data;
  const mayRead = usePermissionSomewhere("approvals:read");
  const pending = useQuery({ ...pendingApprovalsQuery(org), enabled: mayRead }).data?.data;
  return useMemo(() => {
    const active = [...(running ?? []), ...(waiting ?? [])];
    const ids = new Set(active.map(each => each.pipelineId));
    const occupants = new Map(
      [...ids].map(id => [id, findStageOccupants(active.filter(each => each.pipelineId === id))]),
    );
    const approvals = new Map((pending ?? []).map(each => [`${each.pipelineId} ${each.stage}`, each]));
    return { occupants, approvals };
  }, [running, waiting, pending]);
}

type RowProps = { pipeline: Deployed; activity: Activity; isDense: boolean };

/** Memoized: the virtual list renders all rows in view again with each scrolled row. */
const PipelineRow = memo(function PipelineRow({ pipeline, activity, isDense }: RowProps) {
  const org = useOrg();
  const { stages, slug, name, head, pipelineId } = pipeline;
  const occupants = activity.occupants.get(pipelineId);
  const more = stages.length - STAGES_SHOWN_MAX;
  return (
    // biome-ignore lint/a11y/useSemanticElements: see RowList
    <div className={classes.pipeline} role="listitem" aria-label={name}>
      <Link
        to="/o/$org/pipelines/$pipelineId"
        params={{ org, pipelineId: slug }}
        className={classes.name}
        c="inherit"
        underline="hover"
        title={name}
      >
        {name}
      </Link>
      <div className={classes.stages}>
        {stages.slice(0, STAGES_SHOWN_MAX).map(stage => (
          <StageCell
            key={stage.name}
            stage={stage}
            head={head ?? null}
            occupant={occupants?.get(stage.name)}
            approval={activity.approvals.get(`${pipelineId} ${stage.name}`)}
            isDense={isDense}
          />
        ))}
        {more > 0 && <span className={classes.quiet}>and {more} more</span>}
      </div>
      <PipelineActions pipeline={pipeline} isBusy={(occupants?.size ?? 0) > 0} />
    </div>
  );
});

type CellProps = {
  stage: Stage;
  head: string | null;
  occupant: StageOccupant | undefined;
  approval: Approval | undefined;
  isDense: boolean;
};

/** One stage: its state, and the commit that is deployed. */
function StageCell({ isDense, ...state }: CellProps) {
  const org = useOrg();
  const { stage, occupant } = state;
  const { current, failed } = stage;
  const status = stageStatus(state);
  const active = occupant?.deployment.id ?? failed?.deploymentId;
  const isQuiet = status.tone === "good" || (status.tone === "quiet" && !active);
  const word =
    isDense && isQuiet ? <StatusIcon status={status} title={status.label} /> : <StatusText status={status} />;
  return (
    <div className={classes.stage}>
      <span className={classes.state}>
        <span className={classes.label}>{stage.name}</span>
        {active ? (
          <Link
            to="/o/$org/deployments/$deploymentId"
            params={{ org, deploymentId: active }}
            underline="hover"
            inherit
          >
            {word}
          </Link>
        ) : (
          word
        )}
      </span>
      {current && (
        <CommitLine
          commitId={current.commitId}
          commit={current.commit}
          deploymentId={current.deploymentId}
          at={current.at}
          isShort
        />
      )}
    </div>
  );
}

function PipelineActions({ pipeline, isBusy }: { pipeline: Deployed; isBusy: boolean }) {
  const access = useAccess();
  const open = useOpenDialog();
  const mayDeploy =
    pipeline.stages.length > 0 && stageTargets(pipeline).every(each => may(access, "stages:deploy", each));
  if (!mayDeploy) return <span className={classes.actions} />;
  const promotion = findPromotion(pipeline.stages, isBusy);
  return (
    <span className={classes.actions}>
      {promotion && (
        <Button
          size="compact-sm"
          variant="default"
          aria-label={`Promote ${pipeline.name} to ${promotion.to}`}
          onClick={() => open({ kind: "deploy", pipelineId: pipeline.slug, promote: promotion })}
        >
          Promote
        </Button>
      )}
      <Button
        size="compact-sm"
        variant="default"
        aria-label={`Deploy ${pipeline.name}`}
        onClick={() => open({ kind: "deploy", pipelineId: pipeline.slug })}
      >
        Deploy
      </Button>
    </span>
  );
}
