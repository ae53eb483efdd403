import { Button, Card, SegmentedControl, Stack, Table, Text } from "@mantine/core";
import { IconGitPullRequest } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { PullRequest } from "@/api/types";
import { useOrg } from "@/data/me";
import { type PullRequestFilter, pullRequestPagesQuery } from "@/data/pullRequests";
import { CommitId } from "@/ui/CommitId";
import { Snippet } from "@/ui/Copy";
import { EmptyState } from "@/ui/EmptyState";
import { Link } from "@/ui/Link";
import { LoadingRows } from "@/ui/LoadingRows";
import { ActionsCell, LabelledCell, ResponsiveTable } from "@/ui/lists/ResponsiveTable";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { ClaimList } from "../ClaimList";
import { formatRepositoryOf } from "../claimText";
import { ApproveCommitButton } from "../dialogs/ApproveCommitButton";

const FILTERS: { value: PullRequestFilter; label: string }[] = [
  { value: "open", label: "Open" },
  { value: "merged", label: "Merged" },
  { value: "closed", label: "Closed" },
  { value: "all", label: "All" },
];

const CONNECT_COMMAND = "berth repo connect https://git.acme.test/acme/shop.git";

/** Pull requests with the environments that they use or wait for. */
export function PullRequestsPage() {
  const org = useOrg();
  const search = useSearch({ from: "/o/$org/pull-requests" });
  const navigate = useNavigate({ from: "/o/$org/pull-requests" });
  const state = FILTERS.find(each => each.value === search.state)?.value ?? "open";
  const pages = useInfiniteQuery(pullRequestPagesQuery(org, state));
  const found = pages.data?.pages.flatMap(page => page.data) ?? [];
  return (
    <Page title="Pull requests" lead="Pull requests and the environments that they use or wait for">
      <SegmentedControl
        data={FILTERS}
        value={state}
        aria-label="State"
        style={{ alignSelf: "flex-start", maxWidth: "100%" }}
        onChange={value =>
          navigate({ search: { state: value === "open" ? undefined : value }, replace: true })
        }
      />
      {pages.isPending && <LoadingRows />}
      {pages.isError && found.length === 0 && (
        <ProblemPanel error={pages.error} retry={() => pages.refetch()} />
      )}
      {pages.isSuccess && found.length === 0 && !pages.hasNextPage && <NoPullRequests state={state} />}
      {found.length > 0 && (
        <Card padding={0}>
          <ResponsiveTable of={["Pull request", "Environments", "Head"]}>
            {found.map(each => (
              <PullRequestRow key={`${each.repositoryId} ${each.number}`} pullRequest={each} />
            ))}
          </ResponsiveTable>
        </Card>
      )}
      {pages.hasNextPage && (
        <Button variant="default" onClick={() => pages.fetchNextPage()} loading={pages.isFetchingNextPage}>
          Load more
        </Button>
      )}
    </Page>
  );
}

function PullRequestRow({ pullRequest }: { pullRequest: PullRequest }) {
  const org = useOrg();
  const { repositoryId, number, title, author, url, draft, isFork, state, headBranch, head } = pullRequest;
  return (
    <Table.Tr>
      <Table.Td className="wrap">
        <Link
          to="/o/$org/pull-requests/$repositoryId/$number"
          params={{ org, repositoryId, number: String(number) }}
          fw={600}
        >
          #{number} {title}
        </Link>{" "}
        by {author.name}
        <Text size="sm" c="dimmed">
          {[formatRepositoryOf(url), state !== "open" && state, draft && "draft", isFork && "from a fork"]
            .filter(Boolean)
            .join(", ")}
        </Text>
      </Table.Td>
      <LabelledCell of="Environments">
        <ClaimList pullRequest={pullRequest} />
      </LabelledCell>
      <LabelledCell of="Head">
        {headBranch} <CommitId id={head} />
      </LabelledCell>
      <ActionsCell>
        <ApproveCommitButton pullRequest={pullRequest} size="xs" />
      </ActionsCell>
    </Table.Tr>
  );
}

function NoPullRequests({ state }: { state: PullRequestFilter }) {
  return (
    <EmptyState
      icon={IconGitPullRequest}
      title={state === "all" ? "No pull requests yet" : `No ${state} pull requests`}
    >
      <Stack gap="sm" w="100%">
        <div>Connect a repository, so that its pull requests get environments:</div>
        <Snippet label="Command that connects a repository" text={CONNECT_COMMAND} />
      </Stack>
    </EmptyState>
  );
}
