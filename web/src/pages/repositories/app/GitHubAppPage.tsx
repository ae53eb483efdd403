import { Anchor, Text } from "@mantine/core";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { loadAppRepository, saveAppRepository, useConnectWithApp, useCreateApp } from "@/data/connections";
import { Link } from "@/ui/Link";
import { LoadingRows } from "@/ui/LoadingRows";
import { Page } from "@/ui/Page";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { toast } from "@/ui/toast";

const ROUTE = "/o/$org/github-app";

/** Where GitHub leads the browser back: with the code of a new app, or after the app was installed. */
export function GitHubAppPage() {
  const { code, state } = useSearch({ from: ROUTE });
  const repositoryId = loadAppRepository();
  return (
    <Page title="GitHub App">
      {code && state ? (
        <NewApp code={code} state={state} />
      ) : repositoryId ? (
        <InstalledApp repositoryId={repositoryId} />
      ) : (
        <Repositories />
      )}
    </Page>
  );
}

/** Creates the app, and continues on the page of GitHub where it is installed. */
function NewApp({ code, state }: { code: string; state: string }) {
  const { org } = useParams({ from: ROUTE });
  const create = useCreateApp(org);
  useOnce(() =>
    create.mutate(
      { code, state },
      {
        onSuccess: ({ repositoryId, installUrl }) => {
          saveAppRepository(repositoryId);
          window.location.replace(installUrl);
        },
      },
    ),
  );
  if (!create.isError) return <LoadingRows />;
  return (
    <>
      <ProblemPanel error={create.error} />
      <Repositories />
    </>
  );
}

/** Connects the repository for which the app was installed. */
function InstalledApp({ repositoryId }: { repositoryId: string }) {
  const { org } = useParams({ from: ROUTE });
  const navigate = useNavigate();
  const connect = useConnectWithApp(org, repositoryId);
  useOnce(() =>
    connect.mutate(
      {},
      {
        onSuccess: ({ status }) => {
          if (status !== "connected") return;
          toast.success("Connected through the GitHub App");
          void navigate({
            to: "/o/$org/settings/repositories/$repositoryId",
            params: { org, repositoryId },
            replace: true,
          });
        },
      },
    ),
  );
  if (connect.isError)
    return (
      <>
        <ProblemPanel error={connect.error} />
        <Repositories />
      </>
    );
  if (connect.data?.status !== "installationRequired" || !connect.data.url) return <LoadingRows />;
  return (
    <Text>
      The app is not installed for the repository.{" "}
      <Anchor href={connect.data.url}>Select the repository on GitHub</Anchor>
    </Text>
  );
}

function Repositories() {
  const { org } = useParams({ from: ROUTE });
  return (
    <Text>
      Connect repositories on their pages:{" "}
      <Link to="/o/$org/settings/repositories" params={{ org }}>
        Repositories
      </Link>
    </Text>
  );
}

/** Runs once, also if the component is mounted twice in development. */
function useOnce(run: () => void) {
  const hasRun = useRef(false);
  useEffect(() => {
    if (hasRun.current) return;
    hasRun.current = true;
    run();
  });
}
