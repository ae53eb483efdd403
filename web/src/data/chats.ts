/** Chat destinations, and the Slack app of the organization. */
import { queryOptions } from "@tanstack/react-query";
import { api, fetchBody, fetchData } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { useOrgMutation } from "./mutations";
import { resourceKey } from "./queryKeys";

type Schemas = components["schemas"];

export type ChatDestination = Schemas["ChatDestination"];

const LIST_MAX = 200;
const CHATS_PATH = "/api/v1/organizations/{orgId}/chat-destinations";
const CHAT_PATH = `${CHATS_PATH}/{destinationId}` as const;
/** Attempts to send emit no events, so this polls. */
const POLL_MS = 5_000;

export function chatsQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "chats"),
    queryFn: () =>
      fetchBody(api.GET(CHATS_PATH, { params: { path: { orgId: org }, query: { limit: LIST_MAX } } })),
    refetchInterval: POLL_MS,
  });
}

export function slackQuery(org: string) {
  return queryOptions({
    queryKey: resourceKey(org, "chats", "slack"),
    queryFn: () =>
      fetchData(api.GET("/api/v1/organizations/{orgId}/slack", { params: { path: { orgId: org } } })),
  });
}

export function useCreateChat(org: string) {
  return useOrgMutation(org, ["chats"], (destination: Schemas["ChatDestinationNew"]) =>
    fetchData(api.POST(CHATS_PATH, { params: { path: { orgId: org } }, body: destination })),
  );
}

export function useTestChat(org: string) {
  return useOrgMutation(org, ["chats"], (destinationId: string) =>
    fetchData(api.POST(`${CHAT_PATH}/test`, { params: { path: { orgId: org, destinationId } } })),
  );
}

export function useDeleteChat(org: string) {
  return useOrgMutation(org, ["chats"], (destinationId: string) =>
    fetchData(api.DELETE(CHAT_PATH, { params: { path: { orgId: org, destinationId } } })),
  );
}
