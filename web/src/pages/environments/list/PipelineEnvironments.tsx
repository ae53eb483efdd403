import { SimpleGrid, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Environment, Pipeline } from "@/api/types";
import { environmentsQuery } from "@/data/environments";
import { useMe, useOrg } from "@/data/me";
import { Link } from "@/ui/Link";
import { LoadingRows } from "@/ui/LoadingRows";
import { QueryResult } from "@/ui/QueryResult";
import { EnvironmentCard } from "./EnvironmentCard";

/** By the width of the list. */
const COLUMNS = { base: 1, "560px": 2, "880px": 3, "1280px": 4 };

export type EnvironmentFilter = "all" | "free" | "mine";

function matchesFilter(environment: Environment, show: EnvironmentFilter, me: string): boolean {
  if (show === "free") return !environment.lock;
  if (show === "mine") return environment.lock?.holder.id === me;
  return true;
}

type Props = { pipeline: Pipeline; envNames: string[]; show: EnvironmentFilter };

/** Shared environments of one pipeline, those with these names. */
export function PipelineEnvironments({ pipeline, envNames, show }: Props) {
  const org = useOrg();
  const me = useMe().user.id;
  const environments = useQuery(environmentsQuery(org, pipeline.slug));
  return (
    <section aria-label={pipeline.name}>
      <Title order={2} mb="sm">
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
      <QueryResult of={environments} loading={<LoadingRows rows={1} height={180} />}>
        {all => {
          const shown = all.filter(each => envNames.includes(each.envName) && matchesFilter(each, show, me));
          return shown.length === 0 ? (
            <Text c="dimmed">
              {show === "free" ? "No free environments" : "You hold none of these environments"}
            </Text>
          ) : (
            <SimpleGrid type="container" cols={COLUMNS}>
              {shown.map(environment => (
                <EnvironmentCard key={environment.id} pipelineId={pipeline.slug} environment={environment} />
              ))}
            </SimpleGrid>
          );
        }}
      </QueryResult>
    </section>
  );
}
