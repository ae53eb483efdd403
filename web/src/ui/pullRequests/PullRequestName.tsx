import { Text } from "@mantine/core";
import type { PullRequestLink } from "@/api/types";
import { useOrg } from "@/data/me";
import { Link } from "../Link";

/** "for #42 Dark mode", with a link to the pull request. */
export function PullRequestName({ of }: { of: PullRequestLink }) {
  const org = useOrg();
  return (
    <Text size="sm" className="wrap">
      for{" "}
      <Link
        to="/o/$org/pull-requests/$repositoryId/$number"
        params={{ org, repositoryId: of.repositoryId, number: String(of.number) }}
        inherit
        underline="always"
      >
        #{of.number} {of.title}
      </Link>
    </Text>
  );
}
