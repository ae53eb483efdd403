/** Failure analyses, their fix pull requests, and the analysis settings. */
import { queryOptions } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import type { Analysis } from "@/api/types";
import { key } from "./keys";
import { useOrgMutation } from "./mutations";

/** Analyses per deployment: at most one for each attempt. */
const LIST_MAX = 200;
/** Fallback for missed events. */
const FALLBACK_POLL_MS = 5_000;
const OF_DEPLOYMENT = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/analyses";
const ONE = "/api/v1/organizations/{orgId}/analyses/{analysisId}";
const SETTINGS = "/api/v1/organizations/{orgId}/analysis-settings";

export function analysesQuery(org: string, deploymentId: string) {
  return queryOptions({
    queryKey: key(org, "analyses", "of", deploymentId),
    queryFn: () =>
      body(
        api.GET(OF_DEPLOYMENT, {
          params: { path: { orgId: org, deploymentId }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function isUnderWay({ status, pullRequest }: Analysis): boolean {
  return status === "queued" || status === "running" || pullRequest?.state === "opening";
}

/** One analysis with its model requests and its pull request, which the list leaves out. */
export function analysisQuery(org: string, analysisId: string) {
  return queryOptions({
    queryKey: key(org, "analyses", "one", analysisId),
    queryFn: () => data(api.GET(ONE, { params: { path: { orgId: org, analysisId } } })),
    refetchInterval: query => (query.state.data && isUnderWay(query.state.data) ? FALLBACK_POLL_MS : false),
  });
}

export function useAnalyse(org: string, deploymentId: string) {
  return useOrgMutation(org, ["analyses"], (stepId: string) =>
    data(
      api.POST(OF_DEPLOYMENT, {
        params: { path: { orgId: org, deploymentId } },
        body: { stepId },
      }) as Promise<{
        data?: { data: Analysis };
        response: Response;
      }>,
    ),
  );
}

type Preview = components["schemas"]["AnalysisPreview"];

/** The request that an analysis would send to the model. Sends nothing. */
export function previewQuery(org: string, deploymentId: string, stepId: string) {
  return queryOptions({
    queryKey: ["analysis preview", org, deploymentId, stepId],
    queryFn: () =>
      data(
        api.POST(OF_DEPLOYMENT, {
          params: { path: { orgId: org, deploymentId } },
          body: { stepId, preview: true },
        }) as Promise<{ data?: { data: Preview }; response: Response }>,
      ),
    gcTime: 0,
  });
}

export function useProposeFix(org: string, analysisId: string) {
  return useOrgMutation(org, ["analyses"], () =>
    data(api.POST(`${ONE}/pull-request`, { params: { path: { orgId: org, analysisId } } })),
  );
}

export function analysisSettingsQuery(org: string) {
  return queryOptions({
    queryKey: key(org, "analyses", "settings"),
    queryFn: () => data(api.GET(SETTINGS, { params: { path: { orgId: org } } })),
  });
}

export function useSaveAnalysisSettings(org: string) {
  return useOrgMutation(org, ["analyses"], (settings: components["schemas"]["AnalysisSettingsPut"]) =>
    data(api.PUT(SETTINGS, { params: { path: { orgId: org } }, body: settings })),
  );
}
