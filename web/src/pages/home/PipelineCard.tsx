import { Box, Card, Group, Text, Title } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { Fragment } from "react";
import type { Deployed } from "@/api/types";
import { useOrg } from "@/data/me";
import { CommitId } from "@/ui/CommitId";
import { FailedLink } from "@/ui/FailedLink";
import { Link } from "@/ui/Link";
import { EnvironmentChip } from "./EnvironmentChip";
import classes from "./home.module.css";
import { StageCell } from "./StageCell";

/** One pipeline: stages from left to right, shared environments below. */
export function PipelineCard({ pipeline }: { pipeline: Deployed }) {
  const org = useOrg();
  return (
    <Card component="section" aria-label={pipeline.name} className={classes.row}>
      <Group justify="space-between" mb="md" gap="xs">
        <Title order={2}>
          <Link
            to="/o/$org/pipelines/$pipelineId"
            params={{ org, pipelineId: pipeline.slug }}
            inherit
            c="inherit"
            underline="hover"
          >
            {pipeline.name}
          </Link>
        </Title>
        {pipeline.head && (
          <Text size="sm" c="dimmed">
            Latest commit <CommitId id={pipeline.head} />
          </Text>
        )}
      </Group>
      {pipeline.failed && !pipeline.stages.some(stage => stage.failed) && (
        <Box mb="sm">
          <FailedLink failed={pipeline.failed} />
        </Box>
      )}
      <Box className={classes.stages}>
        {pipeline.stages.map((stage, index) => (
          <Fragment key={stage.name}>
            {index > 0 && <IconChevronRight className={classes.arrow} size={18} aria-hidden />}
            <StageCell stage={stage} head={pipeline.head ?? null} />
          </Fragment>
        ))}
      </Box>
      {pipeline.environments.length > 0 && (
        <>
          <Text size="sm" c="dimmed" mt="md" mb={6}>
            Shared environments
          </Text>
          <Box className={classes.environments}>
            {pipeline.environments.map(each => (
              <EnvironmentChip key={each.environmentId} pipelineId={pipeline.slug} environment={each} />
            ))}
          </Box>
        </>
      )}
    </Card>
  );
}
