import { Card, Group, Stack, Text, Title } from "@mantine/core";
import { IconAnchor, IconThumbUp } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Deployed } from "@/api/types";
import { pendingApprovalsQuery } from "@/data/approvals";
import { mayDecideApproval } from "@/data/deploymentAccess";
import { useAccess, useMe, useOrg, usePermissionSomewhere } from "@/data/me";
import { CommitId } from "@/ui/CommitId";
import { Link } from "@/ui/Link";
import { RelativeTime, SinceTime } from "@/ui/RelativeTime";

const SHOWN_MAX = 5;

/** Pending approvals and environments held by the user. */
export function AttentionCard({ pipelines }: { pipelines: Deployed[] }) {
  const org = useOrg();
  const me = useMe();
  const access = useAccess();
  const mayRead = usePermissionSomewhere("approvals:read");
  const approvals = useQuery({ ...pendingApprovalsQuery(org), enabled: mayRead }).data?.data ?? [];
  const asked = approvals.filter(each => mayDecideApproval(access, each, pipelines)).slice(0, SHOWN_MAX);
  const held = pipelines.flatMap(pipeline =>
    pipeline.environments.filter(each => each.holder?.id === me.user.id).map(each => ({ pipeline, each })),
  );
  if (asked.length === 0 && held.length === 0) return null;
  const nameOf = (id: string) => pipelines.find(each => each.pipelineId === id)?.name ?? "pipeline";
  return (
    <Card component="section" aria-label="Needs your attention">
      <Title order={2} mb="sm">
        Needs your attention
      </Title>
      <Stack gap="xs">
        {asked.map(each => (
          <Group key={each.id} gap="xs" wrap="nowrap" align="flex-start">
            <IconThumbUp
              size={18}
              color="var(--berth-warn)"
              aria-hidden
              style={{ flex: "none", marginTop: 3 }}
            />
            <Text>
              <Link to="/o/$org/approvals" params={{ org }} search={{ approval: each.id }}>
                Review {nameOf(each.pipelineId)} → {each.stage}
              </Link>{" "}
              <Text span c="dimmed">
                {each.commitId && <CommitId id={each.commitId} />}, requested{" "}
                <RelativeTime at={each.requestedAt} />
              </Text>
            </Text>
          </Group>
        ))}
        {held.map(({ pipeline, each }) => (
          <Group key={each.environmentId} gap="xs" wrap="nowrap" align="flex-start">
            <IconAnchor
              size={18}
              color="var(--berth-busy)"
              aria-hidden
              style={{ flex: "none", marginTop: 3 }}
            />
            <Text>
              <Link
                to="/o/$org/environments/$pipelineId/$envName"
                params={{ org, pipelineId: pipeline.slug, envName: each.envName }}
              >
                You hold {each.envName}
              </Link>{" "}
              <Text span c="dimmed">
                in {pipeline.name}
                {each.heldSince && (
                  <>
                    {" "}
                    <SinceTime at={each.heldSince} />
                  </>
                )}
              </Text>
            </Text>
          </Group>
        ))}
      </Stack>
    </Card>
  );
}
