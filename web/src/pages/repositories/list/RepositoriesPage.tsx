import { Alert, Button, Card, Code, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconGitBranch, IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Repository } from "@/api/types";
import { useOrg, usePermission } from "@/data/me";
import { repositoriesQuery, useSyncRepository } from "@/data/repositories";
import { CommitId } from "@/ui/CommitId";
import { EmptyState } from "@/ui/EmptyState";
import { Link, LinkButton } from "@/ui/Link";
import { SettingsList } from "@/ui/lists/SettingsList";
import { RelativeTime } from "@/ui/RelativeTime";
import { NewRepositoryDialog } from "@/ui/repositories/NewRepositoryDialog";
import { toast } from "@/ui/toast";
import { RemoveRepositoryDialog } from "../dialogs/RemoveRepositoryDialog";
import { SyncFindings } from "../SyncFindings";

export function RepositoriesPage() {
  const mayWrite = usePermission("repositories:write");
  const org = useOrg();
  const repositories = useQuery(repositoriesQuery(org));
  const [isAdding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Repository | null>(null);
  return (
    <SettingsList
      title="Repositories"
      lead="Git repositories with pipeline definitions. New commits on tracked branches are deployed."
      add={mayWrite && { label: "Add repository", onClick: () => setAdding(true) }}
      query={repositories}
      row={repository => (
        <RepositoryCard repository={repository} mayWrite={mayWrite} remove={() => setRemoving(repository)} />
      )}
      empty={
        <EmptyState icon={IconGitBranch} title="No repositories yet">
          <div>
            Commit a pipeline as <Code>.berth/SLUG/pipeline.yaml</Code>, then add the repository here.
          </div>
          <LinkButton to="/o/$org/welcome" params={{ org }} variant="default">
            Choose a template
          </LinkButton>
        </EmptyState>
      }
    >
      {isAdding && <NewRepositoryDialog onClose={() => setAdding(false)} />}
      {removing && <RemoveRepositoryDialog repository={removing} onClose={() => setRemoving(null)} />}
    </SettingsList>
  );
}

type RowProps = { repository: Repository; mayWrite: boolean; remove: () => void };

function RepositoryCard({ repository, mayWrite, remove }: RowProps) {
  const org = useOrg();
  const sync = useSyncRepository(org);
  return (
    <Card component="article" aria-label={repository.url}>
      <Group justify="space-between" align="flex-start">
        <Stack gap={4} style={{ flex: "1 1 16rem", minWidth: 0 }}>
          <Link
            to="/o/$org/settings/repositories/$repositoryId"
            params={{ org, repositoryId: repository.id }}
            fw={600}
            className="wrap"
          >
            {repository.url}
          </Link>
          <Text size="sm" c="dimmed">
            {repository.defaultBranch ? `${repository.defaultBranch} ` : ""}
            {repository.head && <CommitId id={repository.head} />}
            {repository.lastSyncedAt ? (
              <>
                {" "}
                synced <RelativeTime at={repository.lastSyncedAt} />
              </>
            ) : repository.error ? (
              "last sync failed"
            ) : (
              "not synced yet"
            )}
            {" · "}every {repository.pollSeconds} s
          </Text>
          <Group gap="sm">
            {repository.pipelines.map(each => (
              <Link key={each.id} to="/o/$org/pipelines/$pipelineId" params={{ org, pipelineId: each.slug }}>
                {each.slug}
              </Link>
            ))}
          </Group>
        </Stack>
        {mayWrite && (
          <Group gap="xs">
            <Button
              size="xs"
              variant="default"
              leftSection={<IconRefresh size={14} />}
              loading={sync.isPending}
              onClick={() =>
                sync.mutate(repository.id, {
                  onSuccess: () => toast.success("Sync started"),
                  onError: toast.problem,
                })
              }
            >
              Sync now
            </Button>
            <Button size="xs" variant="default" onClick={remove}>
              Remove
            </Button>
          </Group>
        )}
      </Group>
      {repository.error && (
        <Alert mt="sm" color="buoy" icon={<IconAlertTriangle />} title="Last sync failed">
          <Text size="sm" className="wrap">
            {repository.error}
          </Text>
        </Alert>
      )}
      <SyncFindings repository={repository} />
    </Card>
  );
}
