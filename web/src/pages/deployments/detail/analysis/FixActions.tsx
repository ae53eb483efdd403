import { Button, Code, Group, List } from "@mantine/core";
import { IconGitPullRequest, IconRocket } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Analysis, Deployment, Environment, FixPullRequest, Pipeline } from "@/api/types";
import { useProposeFix } from "@/data/analyses";
import { environmentsQuery } from "@/data/environments";
import { useAccess, useMe } from "@/data/me";
import { environmentTarget, may } from "@/data/permissions";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { DeployFixDialog } from "../../dialogs/DeployFixDialog";

type Props = {
  org: string;
  deployment: Deployment;
  pipeline: Pipeline | undefined;
  analysis: Analysis;
  mayRun: boolean;
};

/** States after which another pull request may be opened. */
const ENDED_STATES: FixPullRequest["state"][] = ["failed", "merged", "closed"];
/** States in which the branch of the fix exists. */
const BRANCH_STATES: FixPullRequest["state"][] = ["open", "pushed"];

/** Opens a pull request with the fix, and deploys its branch to an environment. */
export function FixActions({ org, deployment, pipeline, analysis, mayRun }: Props) {
  const [open, setOpen] = useState<"pull" | "deploy" | null>(null);
  const pull = analysis.pullRequest;
  const mayAsk = mayRun && analysis.commitId != null && (!pull || ENDED_STATES.includes(pull.state));
  const hasBranch = pull != null && BRANCH_STATES.includes(pull.state);
  const environments = useUsableEnvironments(org, deployment.pipelineId, pipeline?.slug, hasBranch);
  const first = environments.find(each => each.envName === deployment.envName) ?? environments[0];
  const close = () => setOpen(null);
  return (
    <Group gap="xs">
      {mayAsk && (
        <Button size="xs" leftSection={<IconGitPullRequest size={14} />} onClick={() => setOpen("pull")}>
          {pull ? "Open another pull request" : "Open pull request"}
        </Button>
      )}
      {hasBranch && first && (
        <Button size="xs" leftSection={<IconRocket size={14} />} onClick={() => setOpen("deploy")}>
          Deploy the fix in {first.envName}
        </Button>
      )}
      {open === "pull" && <OpenPullRequestDialog org={org} analysisId={analysis.id} onClose={close} />}
      {open === "deploy" && pull && first && (
        <DeployFixDialog
          org={org}
          pipelineId={deployment.pipelineId}
          branch={pull.branch}
          environments={environments}
          first={first.envName}
          onClose={close}
        />
      )}
    </Group>
  );
}

/** Environments of the pipeline that are free or held by the user, and that the user may claim. */
function useUsableEnvironments(
  org: string,
  pipelineId: string,
  slug: string | undefined,
  enabled: boolean,
): Environment[] {
  const access = useAccess();
  const me = useMe().user.id;
  const all = useQuery({ ...environmentsQuery(org, pipelineId), enabled }).data ?? [];
  return all.filter(
    each =>
      may(access, "environments:claim", environmentTarget(slug, each.envName)) &&
      (!each.lock || each.lock.holder.id === me),
  );
}

type ProposeProps = { org: string; analysisId: string; onClose: () => void };

function OpenPullRequestDialog({ org, analysisId, onClose }: ProposeProps) {
  const propose = useProposeFix(org, analysisId);
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Open a pull request?"
      action="Open pull request"
      mutation={propose}
      input={undefined}
      onSuccess={onClose}
    >
      <List size="sm" spacing={6}>
        <List.Item>
          Pushes one commit, based on the one that failed, to a new branch under <Code>berth/</Code>.
        </List.Item>
        <List.Item>No other branch changes, and nothing is force-pushed or merged.</List.Item>
        <List.Item>The diff is checked for secrets before it is pushed.</List.Item>
        <List.Item>
          You become the author, so you cannot approve the change where self-approval is off.
        </List.Item>
      </List>
    </ConfirmDialog>
  );
}
