import { Card, Group, Stack, Text, Title } from "@mantine/core";
import { IconAnchor, IconThumbUp } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Deployed } from "@/api/types";
import { pendingApprovalsQuery } from "@/data/approvals";
import { useMay, useMe, useOrg } from "@/data/me";
import { Commit } from "@/ui/Commit";
import { Link } from "@/ui/Link";
import { Since, When } from "@/ui/When";

const SHOWN_MAX = 5;

/** Pending approvals and environments held by the user. */
export function ForYou({ pipelines }: { pipelines: Deployed[] }) {
  const org = useOrg();
  const me = useMe();
  const mayDecide = useMay("approvals:decide");
  const approvals = useQuery(pendingApprovalsQuery(org)).data?.data ?? [];
  const asked = mayDecide ? approvals.slice(0, SHOWN_MAX) : [];
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
                {each.commitId && <Commit id={each.commitId} />}, requested <When at={each.requestedAt} />
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
                of {pipeline.name}
                {each.heldSince && (
                  <>
                    , <Since at={each.heldSince} />
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
