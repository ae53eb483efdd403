/** Failure analyses, their fix pull requests, and the analysis settings. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import type { Analysis } from "@/api/types";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

/** Analyses per deployment: at most one for each attempt. */
const LIST_MAX = 200;
/** Fallback for missed events. */
const FALLBACK_POLL_MS = 5_000;
const DEPLOYMENT_PATH = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/analyses";
const ANALYSIS_PATH = "/api/v1/organizations/{orgId}/analyses/{analysisId}";
const SETTINGS_PATH = "/api/v1/organizations/{orgId}/analysis-settings";

export function analysesQuery(org: string, deploymentId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "analyses", "of", deploymentId),
    queryFn: () =>
      fetchBody(
        api.GET(DEPLOYMENT_PATH, {
          params: { path: { orgId: org, deploymentId }, query: { limit: LIST_MAX } },
        }),
      ),
  });
}

export function isInProgress({ status, pullRequest }: Analysis): boolean {
  return status === "queued" || status === "running" || pullRequest?.state === "opening";
}

/** One analysis with its model requests and its pull request, which the list leaves out. */
export function analysisQuery(org: string, analysisId: string) {
  return queryOptions({
    queryKey: resourceKey(org, "analyses", "one", analysisId),
    queryFn: () => fetchData(api.GET(ANALYSIS_PATH, { params: { path: { orgId: org, analysisId } } })),
    refetchInterval: query => (query.state.data && isInProgress(query.state.data) ? FALLBACK_POLL_MS : false),
  });
}

export function useAnalyzeStep(org: string, deploymentId: string) {
  return useOrgMutation(org, ["analyses"], (stepId: string) =>
    fetchData(
      api.POST(DEPLOYMENT_PATH, {
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
      fetchData(
        api.POST(DEPLOYMENT_PATH, {
          params: { path: { orgId: org, deploymentId } },
          body: { stepId, preview: true },
        }) as Promise<{ data?: { data: Preview }; response: Response }>,
      ),
    gcTime: 0,
  });
}

export function useProposeFix(org: string, analysisId: string) {
  return useOrgMutation(org, ["analyses"], () =>
    fetchData(api.POST(`${ANALYSIS_PATH}/pull-request`, { params: { path: { orgId: org, analysisId } } })),
  );
}

export function analysisSettingsQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "analyses", "settings"),
    queryFn: () => fetchData(api.GET(SETTINGS_PATH, { params: { path: { orgId: org } } })),
  });
}

export function useSaveAnalysisSettings(org: string) {
  return useOrgMutation(org, ["analyses"], (settings: components["schemas"]["AnalysisSettingsPut"]) =>
    fetchData(api.PUT(SETTINGS_PATH, { params: { path: { orgId: org } }, body: settings })),
  );
}
